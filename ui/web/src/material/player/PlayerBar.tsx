import type { ReactNode } from "react";
import { t } from "../../i18n";
import { formatSeconds } from "../../parts/format";
import { IconButton } from "../../parts/IconButton";
import { SPEEDS } from "./marks";
import type { Player } from "./usePlayer";

interface PlayerBarProps {
  player: Player;
  /** The time that the marks are set at: of a video the middle of its frame. */
  at: number;
  /** Between play and the marks. */
  children?: ReactNode;
}

/** Under a video or a sound: play, marks, loop, speed. */
export function PlayerBar({ player, at, children }: PlayerBarProps) {
  const { isPlaying, isLooping, marks, speed } = player;
  return (
    <div className="ll-player-bar" role="group" aria-label={t("material.player")}>
      <IconButton
        icon={isPlaying ? "stop" : "play"}
        size={18}
        label={t(isPlaying ? "gallery.pause" : "gallery.play")}
        onClick={() => player.play(!isPlaying)}
      />
      {children}
      <IconButton
        icon="mark-in"
        label={t("material.mark_in")}
        isPressed={marks.start !== null}
        onClick={() => player.mark("start", at)}
      />
      <IconButton
        icon="mark-out"
        label={t("material.mark_out")}
        isPressed={marks.end !== null}
        onClick={() => player.mark("end", at)}
      />
      <IconButton
        icon="close"
        label={t("material.clear_marks")}
        disabled={marks.start === null && marks.end === null}
        onClick={player.clearMarks}
      />
      <IconButton
        icon="refresh"
        label={t("material.loop")}
        isPressed={isLooping}
        onClick={() => player.setLooping(!isLooping)}
      />
      <label className="ll-paint-choice">
        <span>{t("material.speed")}</span>
        <select className="ll-input" value={speed} onChange={(event) => player.setSpeed(Number(event.target.value))}>
          {SPEEDS.map((each) => (
            <option key={each} value={each}>
              {t("material.times", { n: each })}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}

/** The keys of a player; true where one was taken. `step` is what , and . move by, in seconds. */
export function playerKey(key: string, player: Player, { at, step }: { at: number; step: number }): boolean {
  const { isPlaying, length } = player;
  const wind = (to: number) => {
    player.play(false);
    player.seek(Math.min(Math.max(to, 0), length));
  };
  const does: Record<string, () => void> = {
    " ": () => player.play(!isPlaying),
    ",": () => wind(at - step),
    ".": () => wind(at + step),
    i: () => player.mark("start", at),
    o: () => player.mark("end", at),
    x: () => player.clearMarks(),
    l: () => player.setLooping(!player.isLooping),
    Home: () => wind(player.marks.start ?? 0),
    End: () => wind(player.marks.end ?? length),
  };
  const act = does[key];
  act?.();
  return act !== undefined;
}

/** "0.4 s of 2 s", and the marked part where there is one. */
export function timesOf({ time, length, marks }: Player): string {
  const words = t("material.time_of", { time: formatSeconds(time), length: formatSeconds(length) });
  if (marks.start === null && marks.end === null) return words;
  const [start, end] = [formatSeconds(marks.start ?? 0), formatSeconds(marks.end ?? length)];
  return `${words}, ${t("material.marked", { start, end })}`;
}
