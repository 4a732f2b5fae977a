import { t } from "../../i18n";
import { SoundPlayer } from "../../material/lazy";
import type { Result } from "../../types";
import { describe } from "../resultWords";

/** Two sounds, one above the other, to be heard in turn. */
export function BySound({ a, b }: { a: Result; b: Result }) {
  const sides = [
    { result: a, side: "A" },
    { result: b, side: "B" },
  ];
  return (
    <div className="ll-compare-sounds">
      {sides.map(({ result, side }) => (
        <div key={side}>
          <b className={`ll-side-${side.toLowerCase()}`}>{side}</b>
          <SoundPlayer result={result} label={t("gallery.side_label", { side, about: describe(result) })} />
        </div>
      ))}
    </div>
  );
}
