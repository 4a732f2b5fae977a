import { useMemo, useState, type CSSProperties } from "react";
import { sentence } from "../../host";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { download } from "../../parts/download";
import { Notice } from "../../parts/Notice";
import { Dialog } from "../../parts/overlays/Dialog";
import { isOver, useRuns } from "../../store/live";
import { toast } from "../../store/page";
import { gallery } from "../galleryState";
import type { Size } from "../stage/zoom";
import { drawGrid } from "./gridPicture";
import { SweepCell } from "./SweepCell";
import { heading, makers, sweepTable, type SweepTable } from "./sweepTable";
import { useBatch } from "./useBatch";

/** All runs of one sweep as a table of what was varied; cells fill while the runs go on. */
export function SweepGrid({ batch }: { batch: string }) {
  const all = useRuns();
  const runs = useMemo(() => Object.values(all).filter((run) => run.batch === batch), [all, batch]);
  const { results, problem } = useBatch(batch);
  const nodes = makers(results);
  const [wanted, setWanted] = useState("");
  const node = nodes.includes(wanted) ? wanted : (nodes[0] ?? "");
  const [isTurned, setTurned] = useState(false);
  const table = sweepTable(
    runs,
    results.filter((result) => result.node === node),
    isTurned,
  );
  const name = runs[0]?.name ?? results[0]?.workflow_name ?? "";
  const done = runs.filter((run) => isOver(run.state)).length;

  return (
    <Dialog title={t("gallery.sweep_title", { name })} size="full" onClose={() => gallery.getState().close()}>
      <div className="ll-sweep">
        <div className="ll-sweep-tools">
          {runs.length > 0 && <span role="status">{t("gallery.sweep_done", { done, count: runs.length })}</span>}
          {nodes.length > 1 && (
            <label>
              {t("gallery.sweep_node")}{" "}
              <select className="ll-input" value={node} onChange={(event) => setWanted(event.target.value)}>
                {nodes.map((each) => (
                  <option key={each}>{each}</option>
                ))}
              </select>
            </label>
          )}
          <Button icon="refresh" aria-pressed={isTurned} onClick={() => setTurned(!isTurned)}>
            {t("gallery.turn")}
          </Button>
          <DownloadGrid name={name} table={table} />
        </div>
        {problem && <Notice kind="error">{problem}</Notice>}
        <div className="ll-sweep-room" role="region" aria-label={t("gallery.sweep_title", { name })} tabIndex={0}>
          <Table table={table} />
        </div>
      </div>
    </Dialog>
  );
}

function Table({ table: { rows, columns, cells } }: { table: SweepTable }) {
  const among = cells.flat().flatMap((cell) => cell.results);
  const hasRowHeads = rows.some((row) => heading(row) !== "");
  return (
    <table className="ll-sweep-table" style={{ "--ll-columns": columns.length } as CSSProperties}>
      <thead>
        <tr>
          {hasRowHeads && <td />}
          {columns.map((column) => (
            <th key={heading(column)} scope="col">
              {heading(column)}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row, at) => (
          <tr key={heading(row)}>
            {hasRowHeads && <th scope="row">{heading(row)}</th>}
            {columns.map((column, across) => (
              <td key={heading(column)}>
                <SweepCell
                  cell={cells[at]?.[across]}
                  among={among}
                  label={[heading(row), heading(column)].filter(Boolean).join(", ")}
                />
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** The thumb of a sound, which has no size of its own. */
const OUTLINE: Size = { width: 384, height: 192 };

/** Pictures as they are, videos by their first frame, sounds by their outline. */
function DownloadGrid({ name, table }: { name: string; table: SweepTable }) {
  const [isBusy, setBusy] = useState(false);
  const made = table.cells.flat().flatMap((cell) => cell.results.slice(0, 1));
  const save = async () => {
    setBusy(true);
    try {
      const blob = await drawGrid({
        title: name,
        rows: table.rows.map(heading),
        columns: table.columns.map(heading),
        cells: table.cells.map((row) => row.map((cell) => cell.results[0] ?? null)),
        width: Math.max(...made.map((result) => result.width || OUTLINE.width)),
        height: Math.max(...made.map((result) => result.height || OUTLINE.height)),
      });
      const address = URL.createObjectURL(blob);
      download(address, `${name || "sweep"}.png`);
      setTimeout(() => URL.revokeObjectURL(address), 10_000);
    } catch (error) {
      toast({ kind: "error", text: sentence(error) });
    }
    setBusy(false);
  };
  return (
    <Button kind="primary" icon="download" isBusy={isBusy} disabled={made.length === 0} onClick={() => void save()}>
      {t("gallery.download_grid")}
    </Button>
  );
}
