import { useState } from "react";
import { host, sentence } from "../../host";
import { t } from "../../i18n";
import { formatDuration, formatPercent } from "../../parts/format";
import { Notice } from "../../parts/Notice";
import { Spinner } from "../../parts/Spinner";
import type { HistoryRow } from "../../types";

/** How well the runs of this machine were predicted, by model and plan; asked for when it is opened. */
export function History() {
  const [rows, setRows] = useState<readonly HistoryRow[] | null>(null);
  const [problem, setProblem] = useState("");
  const load = () =>
    host.history().then(
      ({ rows }) => setRows(rows),
      (error: unknown) => setProblem(sentence(error)),
    );
  return (
    <details className="ll-comparison" onToggle={(event) => event.currentTarget.open && void load()}>
      <summary>{t("panels.history")}</summary>
      {problem && <Notice kind="error">{problem}</Notice>}
      {!rows && !problem && <Spinner label={t("panels.reading")} />}
      {rows?.length === 0 && <p className="ll-quiet">{t("panels.history_none")}</p>}
      {rows && rows.length > 0 && <Table rows={rows} />}
    </details>
  );
}

function Table({ rows }: { rows: readonly HistoryRow[] }) {
  return (
    <div className="ll-wide-table">
      <table className="ll-choices" aria-label={t("panels.history")}>
        <thead>
          <tr>
            <th scope="col">{t("panels.history_model")}</th>
            <th scope="col">{t("panels.history_runs")}</th>
            <th scope="col">{t("panels.history_step")}</th>
            <th scope="col">{t("panels.history_off")}</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={[row.model, row.plan, row.machine, row.dtype].join(" ")}>
              <th scope="row">
                {row.model}, {row.plan.replaceAll(",", ", ")}
                <span className="ll-quiet">
                  {row.dtype}, {row.machine}
                </span>
              </th>
              <td>{row.num_runs}</td>
              <td className="ll-wraps">
                {t("panels.history_last", {
                  predicted: formatDuration(row.last_predicted_s),
                  took: formatDuration(row.last_took_s),
                })}
                <span className="ll-quiet">{row.last_day}</span>
              </td>
              <td>
                {formatPercent(row.median - 1)}
                <span className="ll-quiet">{t("panels.history_worst", { worst: formatPercent(row.worst - 1) })}</span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
