import { useState, type KeyboardEvent, type PointerEvent } from "react";
import { t } from "../../i18n";
import { Shown } from "../stage/Shown";
import { Stage } from "../stage/Stage";
import type { Pair } from "./usePlayback";

const STEP = 2;
const LEAP = 10;

/** A over B with a divider between them: drag it, or move it with the arrow keys. */
export function BySlider({ a, b, view, onView, playback }: Pair) {
  const [part, setPart] = useState(50);
  const move = (to: number) => setPart(Math.min(Math.max(to, 0), 100));

  const onKeyDown = (event: KeyboardEvent) => {
    const moves: Record<string, number> = {
      ArrowLeft: part - STEP,
      ArrowDown: part - STEP,
      ArrowRight: part + STEP,
      ArrowUp: part + STEP,
      PageDown: part - LEAP,
      PageUp: part + LEAP,
      Home: 0,
      End: 100,
    };
    const to = moves[event.key];
    if (to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    move(to);
  };
  const onPointerMove = (event: PointerEvent<HTMLDivElement>) => {
    if (!event.currentTarget.hasPointerCapture(event.pointerId)) return;
    event.stopPropagation();
    const room = event.currentTarget.parentElement?.getBoundingClientRect();
    if (room) move(((event.clientX - room.left) / room.width) * 100);
  };

  return (
    <Stage label={t("gallery.slider_label")} picture={a} view={view} onView={onView}>
      {(placement) => (
        <>
          <Shown result={b} placement={placement} videoRef={playback.second} />
          <div className="ll-slider-top" style={{ clipPath: `inset(0 ${100 - part}% 0 0)` }}>
            <Shown result={a} placement={placement} videoRef={playback.first} />
          </div>
          <b className="ll-side-a ll-corner-left">A</b>
          <b className="ll-side-b ll-corner-right">B</b>
          <div
            className="ll-slider-divider"
            role="slider"
            tabIndex={0}
            aria-label={t("gallery.divider")}
            aria-valuemin={0}
            aria-valuemax={100}
            aria-valuenow={Math.round(part)}
            aria-valuetext={t("gallery.divider_at", { percent: Math.round(part) })}
            style={{ left: `${part}%` }}
            onKeyDown={onKeyDown}
            onDoubleClick={(event) => {
              event.stopPropagation();
              move(50);
            }}
            onPointerDown={(event) => {
              event.stopPropagation();
              event.currentTarget.setPointerCapture(event.pointerId);
            }}
            onPointerMove={onPointerMove}
          />
        </>
      )}
    </Stage>
  );
}
