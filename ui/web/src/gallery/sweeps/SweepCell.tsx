import { urls } from "../../host";
import { t } from "../../i18n";
import { Meter } from "../../parts/Meter";
import type { Result, Run } from "../../types";
import { gallery } from "../galleryState";
import type { Cell } from "./sweepTable";
import { worded } from "../../worded";

interface SweepCellProps {
  cell: Cell | undefined;
  /** What was varied to get it. */
  label: string;
  /** All results of the table. */
  among: readonly Result[];
}

/** One run of a sweep: its picture, or how far it is, or why there is none. */
export function SweepCell({ cell, label, among }: SweepCellProps) {
  const result = cell?.results[0];
  if (result) {
    const more = (cell?.results.length ?? 1) - 1;
    return (
      <div className="ll-sweep-cell">
        <button
          type="button"
          aria-label={t("gallery.open_cell", { label })}
          onClick={() => gallery.getState().show({ view: "detail", result, among })}
        >
          <img src={urls.thumb(result.id, result.poster)} alt="" loading="lazy" draggable={false} />
        </button>
        {more > 0 && <span className="ll-tile-mark">+ {more}</span>}
      </div>
    );
  }
  const run = cell?.run;
  return <div className="ll-sweep-cell ll-sweep-waiting">{run ? <Waiting run={run} label={label} /> : "–"}</div>;
}

function Waiting({ run, label }: { run: Run; label: string }) {
  const watched = Object.entries(run.nodes).find(([, node]) => node.state === "running" && node.preview > 0);
  return (
    <>
      {watched && <img src={urls.preview(run.id, watched[0], watched[1].preview)} alt="" draggable={false} />}
      <span className="ll-sweep-state">{worded(run.error) || t(`gallery.state_${run.state}`)}</span>
      {run.state === "running" && (
        <Meter label={t("gallery.progress_of", { label })} value={run.done} max={run.total} />
      )}
    </>
  );
}
