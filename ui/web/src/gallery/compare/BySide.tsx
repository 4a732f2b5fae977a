import { t } from "../../i18n";
import { describe } from "../resultWords";
import { Shown } from "../stage/Shown";
import { Stage } from "../stage/Stage";
import type { Pair } from "./usePlayback";

/** A and B beside each other; zooming and moving one zooms and moves the other. */
export function BySide({ a, b, view, onView, playback }: Pair) {
  const sides = [
    { result: a, side: "A", videoRef: playback.first },
    { result: b, side: "B", videoRef: playback.second },
  ] as const;
  return (
    <div className="ll-sides">
      {sides.map(({ result, side, videoRef }) => (
        <div key={side} className="ll-sides-one">
          <Stage
            label={t("gallery.side_label", { side, about: describe(result) })}
            picture={result}
            view={view}
            onView={onView}
            hasTools={side === "B"}
          >
            {(placement) => (
              <>
                <Shown result={result} placement={placement} videoRef={videoRef} />
                <b className={`ll-side-${side.toLowerCase()} ll-corner-left`}>{side}</b>
              </>
            )}
          </Stage>
        </div>
      ))}
    </div>
  );
}
