import { useEffect, useRef, useState, type KeyboardEvent, type PointerEvent } from "react";
import { useSize } from "../../gallery/stage/useSize";
import { t } from "../../i18n";
import { partOf } from "../player/marks";
import { timesOf } from "../player/PlayerBar";
import type { Player } from "../player/usePlayer";
import { readPeaks, type Peaks } from "./peaks";

interface WaveformProps {
  src: string;
  /** Address of the outline that the server draws, for what cannot be read here. */
  outline: string;
  player: Player;
}

const STEPS: Readonly<Record<string, number>> = { ArrowLeft: -1, ArrowRight: 1, PageDown: -10, PageUp: 10 };

/** The outline of a sound: click or keys go to a place in it; what is played and what is marked stands out. */
export function Waveform({ src, outline, player }: WaveformProps) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [peaks, setPeaks] = useState<Peaks | null>();
  const size = useSize(box);
  const { time, length, marks } = player;

  useEffect(() => {
    let isGone = false;
    void readPeaks(src, length).then((read) => !isGone && setPeaks(read));
    return () => {
      isGone = true;
    };
  }, [src, length]);
  useEffect(() => {
    const target = canvas.current;
    const context = target?.getContext("2d");
    if (!target || !context || !peaks || !size.width) return;
    const dots = window.devicePixelRatio || 1;
    const [wide, tall] = [Math.round(size.width * dots), Math.round(size.height * dots)];
    if (target.width !== wide || target.height !== tall) [target.width, target.height] = [wide, tall];
    draw(context, peaks, { played: time / (length || 1), ...partOf(marks, length), length });
  }, [peaks, size, time, length, marks]);

  const seekTo = (event: PointerEvent<HTMLDivElement>) => {
    const rect = event.currentTarget.getBoundingClientRect();
    player.seek(Math.min(Math.max((event.clientX - rect.left) / rect.width, 0), 1) * length);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = STEPS[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    player.seek(Math.min(Math.max(time + step * (event.shiftKey ? 0.1 : 1) * Math.max(length / 100, 0.01), 0), length));
  };
  return (
    <div
      ref={box}
      className="ll-waveform"
      role="slider"
      tabIndex={0}
      aria-label={t("gallery.position")}
      aria-valuemin={0}
      aria-valuemax={Number(length.toFixed(3))}
      aria-valuenow={Number(time.toFixed(3))}
      aria-valuetext={timesOf(player)}
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId);
        seekTo(event);
      }}
      onPointerMove={(event) => event.buttons && seekTo(event)}
      onKeyDown={onKeyDown}
    >
      {peaks === null ? <img src={outline} alt="" draggable={false} /> : <canvas ref={canvas} />}
      {marks.start !== null && <i style={{ left: `${(100 * marks.start) / length}%` }} />}
      {marks.end !== null && <i style={{ left: `${(100 * marks.end) / length}%` }} />}
      <b style={{ left: `${(100 * time) / (length || 1)}%` }} />
    </div>
  );
}

function draw(
  context: CanvasRenderingContext2D,
  { low, high }: Peaks,
  { played, start, end, length }: { played: number; start: number; end: number; length: number },
): void {
  const { width, height } = context.canvas;
  const styles = getComputedStyle(context.canvas);
  const [plain, done] = [styles.getPropertyValue("--ll-wave"), styles.getPropertyValue("--ll-wave-played")];
  context.clearRect(0, 0, width, height);
  for (let x = 0; x < width; x++) {
    const share = (x + 0.5) / width;
    const at = Math.min(Math.floor(share * low.length), low.length - 1);
    const next = Math.max(Math.ceil(((x + 1) / width) * low.length), at + 1);
    const bottom = Math.min(...low.subarray(at, next));
    const top = Math.max(...high.subarray(at, next));
    context.globalAlpha = share * length >= start && share * length <= end ? 1 : 0.35;
    context.fillStyle = share <= played ? done : plain;
    const from = (0.5 - top / 2) * height;
    context.fillRect(x, from, 1, Math.max((0.5 - bottom / 2) * height - from, 1));
  }
}
