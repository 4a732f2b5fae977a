import { useState, type KeyboardEvent } from "react";
import { describe, lengthOf } from "../../gallery/resultWords";
import { urls } from "../../host";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import type { Result } from "../../types";
import { partOf } from "../player/marks";
import { PlayerBar, playerKey, timesOf } from "../player/PlayerBar";
import { soundAsInput } from "../player/toInputs";
import { usePlayer } from "../player/usePlayer";
import { Waveform } from "./Waveform";

const STEP_S = 0.1;

interface SoundPlayerProps {
  result: Result;
  /** Instead of what it is in words. */
  label?: string;
  /** Whether its marked part can be taken as an input. */
  hasUse?: boolean;
}

/** A sound by its outline: played, wound, marked, and its marked part taken as an input. */
export function SoundPlayer({ result, label, hasUse = false }: SoundPlayerProps) {
  const player = usePlayer(lengthOf(result), { loops: false });
  const [isBusy, setBusy] = useState(false);
  const isMarked = player.marks.start !== null || player.marks.end !== null;
  const onKeyDown = (event: KeyboardEvent) => {
    const isButton = (event.target as HTMLElement).closest("button, select") !== null;
    if (event.ctrlKey || event.metaKey || event.altKey || (isButton && event.key === " ")) return;
    if (!playerKey(event.key, player, { at: player.time, step: STEP_S })) return;
    event.preventDefault();
    event.stopPropagation();
  };
  const use = async () => {
    setBusy(true);
    await soundAsInput(result, partOf(player.marks, player.length));
    setBusy(false);
  };
  return (
    <div className="ll-player" role="group" aria-label={t("material.sound_player")} onKeyDown={onKeyDown}>
      <audio
        ref={player.media}
        src={urls.file(result.id)}
        aria-label={label ?? describe(result)}
        loop={player.isLooping && !isMarked}
        preload="metadata"
      />
      <Waveform src={urls.file(result.id)} outline={urls.thumb(result.id)} player={player} />
      <PlayerBar player={player} at={player.time} />
      <p className="ll-player-times">{timesOf(player)}</p>
      {hasUse && (
        <div className="ll-player-bar">
          <Button icon="audio" isBusy={isBusy} onClick={() => void use()}>
            {t(isMarked ? "material.use_part" : "material.use_whole")}
          </Button>
        </div>
      )}
    </div>
  );
}
