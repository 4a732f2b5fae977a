import { t } from "../../i18n";
import { formatSeconds } from "../../parts/format";
import { IconButton } from "../../parts/IconButton";
import type { Playback } from "./usePlayback";

const STEP_S = 0.04;

/** Starts, stops and winds both videos. */
export function PlaybackBar({ playback: { isPlaying, time, length, play, seek } }: { playback: Playback }) {
  return (
    <div className="ll-playback">
      <IconButton
        icon={isPlaying ? "stop" : "play"}
        label={t(isPlaying ? "gallery.pause" : "gallery.play")}
        onClick={() => play(!isPlaying)}
      />
      <input
        type="range"
        min={0}
        max={length}
        step={STEP_S}
        value={Math.min(time, length)}
        aria-label={t("gallery.position")}
        aria-valuetext={formatSeconds(time)}
        onChange={(event) => {
          play(false);
          seek(Number(event.target.value));
        }}
      />
      <span>
        {formatSeconds(time)} / {formatSeconds(length)}
      </span>
    </div>
  );
}
