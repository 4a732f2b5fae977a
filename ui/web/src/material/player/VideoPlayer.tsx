import { useState, type KeyboardEvent } from "react";
import { describe, lengthOf } from "../../gallery/resultWords";
import { urls } from "../../host";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { IconButton } from "../../parts/IconButton";
import type { Result } from "../../types";
import { frameAt, framesOf, partOf, timeOf } from "./marks";
import { setPoster } from "./poster";
import { PlayerBar, playerKey, timesOf } from "./PlayerBar";
import { frameAsInput, partAsInput } from "./toInputs";
import { usePlayer } from "./usePlayer";

/** A video: played, stepped frame by frame, marked, and its frames or its marked part taken as inputs. */
export function VideoPlayer({ result }: { result: Result }) {
  const { fps, frames } = result;
  const player = usePlayer(lengthOf(result), { loops: true });
  const [isBusy, setBusy] = useState(false);
  const frame = frameAt(player.time, fps, frames);
  const at = timeOf(frame, fps);
  const part = partOf(player.marks, player.length);
  const isMarked = player.marks.start !== null || player.marks.end !== null;
  const step = (by: number) => {
    player.play(false);
    player.seek(timeOf(Math.min(Math.max(frame + by, 0), frames - 1), fps));
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const isButton = (event.target as HTMLElement).closest("button, select") !== null;
    if (event.ctrlKey || event.metaKey || event.altKey || (isButton && event.key === " ")) return;
    if (event.key === "," || event.key === ".") step(event.key === "," ? -1 : 1);
    else if (!playerKey(event.key, player, { at, step: 1 / fps })) return;
    event.preventDefault();
    event.stopPropagation();
  };
  const busy = async (work: Promise<void>) => {
    setBusy(true);
    await work;
    setBusy(false);
  };
  const share = (time: number) => `${(100 * time) / (player.length || 1)}%`;
  return (
    <div className="ll-player" role="group" aria-label={t("material.video_player")} onKeyDown={onKeyDown}>
      <video
        ref={player.media}
        className="ll-player-video"
        src={urls.file(result.id)}
        poster={urls.thumb(result.id, result.poster)}
        aria-label={describe(result)}
        loop={player.isLooping && !isMarked}
        playsInline
        preload="auto"
        onClick={() => player.play(!player.isPlaying)}
      />
      <div className="ll-player-line" style={{ "--from": share(part.start), "--to": share(part.end) } as object}>
        <input
          type="range"
          min={0}
          max={Math.max(frames - 1, 0)}
          value={frame}
          aria-label={t("gallery.position")}
          aria-valuetext={t("material.frame_of", { n: frame + 1, frames })}
          onChange={(event) => {
            player.play(false);
            player.seek(timeOf(Number(event.target.value), fps));
          }}
        />
      </div>
      <PlayerBar player={player} at={at}>
        <IconButton icon="chevron-left" size={18} label={t("material.frame_back")} onClick={() => step(-1)} />
        <IconButton icon="chevron-right" size={18} label={t("material.frame_on")} onClick={() => step(1)} />
      </PlayerBar>
      <p className="ll-player-times" role="status">
        {t("material.frame_of", { n: frame + 1, frames })}, {timesOf(player)}
      </p>
      <div className="ll-player-bar" role="group" aria-label={t("material.use")}>
        <Button icon="image" isBusy={isBusy} onClick={() => void busy(frameAsInput(result, player.element()))}>
          {t("material.use_image_frame")}
        </Button>
        <Button
          icon="video"
          isBusy={isBusy}
          onClick={() => void busy(partAsInput(result, framesOf(player.marks, fps, frames)))}
        >
          {t(isMarked ? "material.use_part" : "material.use_whole")}
        </Button>
        <Button
          icon="grid"
          isBusy={isBusy}
          disabled={frame === result.poster}
          onClick={() => void busy(setPoster(result, frame))}
        >
          {t("material.set_poster")}
        </Button>
      </div>
    </div>
  );
}
