import { memo } from "react";
import { urls } from "../../host";
import { t } from "../../i18n";
import { formatSeconds } from "../../parts/format";
import { Icon } from "../../parts/icons";
import type { Result } from "../../types";
import { Star } from "../marks/Marks";
import { describe, lengthOf } from "../resultWords";
import { heading } from "../sweeps/sweepTable";

interface TileProps {
  result: Result;
  /** In its day, px. */
  top: number;
  left: number;
  side: number;
  /** Its number among `count` of its day; -1 where more may come. */
  place: number;
  count: number;
  isChosen: boolean;
  isChoosing: boolean;
  onOpen: (result: Result) => void;
  onChoose: (result: Result, isChosen: boolean, isRange: boolean) => void;
}

/** One result in the list: its thumb opens it, or chooses it while results are being chosen. */
export const Tile = memo(function Tile({ result, isChosen, isChoosing, onOpen, onChoose, ...at }: TileProps) {
  const name = describe(result);
  const varied = heading(result.varied);
  return (
    <li
      className={`ll-tile ${result.kind === "audio" ? "ll-tile-sound" : ""}`}
      data-testid={`result-${result.id}`}
      data-key={result.id}
      aria-posinset={at.place}
      aria-setsize={at.count}
      style={{ top: at.top, left: at.left, width: at.side, height: at.side }}
      data-chosen={isChosen || undefined}
    >
      <button
        type="button"
        className="ll-tile-open"
        aria-label={varied ? `${name}, ${varied}` : name}
        title={result.prompt || result.name}
        onClick={(event) =>
          isChoosing || event.ctrlKey || event.metaKey || event.shiftKey
            ? onChoose(result, !isChosen, event.shiftKey)
            : onOpen(result)
        }
      >
        <img
          src={urls.thumb(result.id, result.poster)}
          alt=""
          loading="lazy"
          decoding="async"
          width={result.width}
          height={result.height}
          draggable={false}
          onError={({ currentTarget }) => currentTarget.setAttribute("data-broken", "")}
          onLoad={({ currentTarget }) => currentTarget.removeAttribute("data-broken")}
        />
        <span className="ll-tile-caption" aria-hidden="true">
          {varied || result.prompt || result.name}
        </span>
      </button>
      {result.kind !== "image" && (
        <span className="ll-tile-mark">
          <Icon name={result.kind === "audio" ? "audio" : "play"} size={12} />
          {lengthOf(result) > 0 && formatSeconds(lengthOf(result))}
        </span>
      )}
      <span className="ll-tile-star" data-shown={result.is_starred || undefined}>
        <Star results={[result]} />
      </span>
      <label className="ll-tile-check" data-shown={isChoosing || undefined}>
        <input
          type="checkbox"
          checked={isChosen}
          aria-label={t("gallery.choose", { name })}
          onChange={(event) => onChoose(result, event.target.checked, false)}
        />
      </label>
    </li>
  );
});
