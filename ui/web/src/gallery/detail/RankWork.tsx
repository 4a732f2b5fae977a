import { t } from "../../i18n";
import { formatBytes, formatSeconds } from "../../parts/format";
import type { NodeState } from "../../types";

/** What each rank did for a result, node by node, where the work was spread. */
export function RankWork({ nodes }: { nodes: Record<string, NodeState> }) {
  const spread = Object.entries(nodes).filter(([, node]) => node.ranks.length > 0);
  if (spread.length === 0) return null;
  return (
    <div className="ll-work" role="region" aria-label={t("gallery.ranks")} tabIndex={0}>
      <table>
        <caption className="ll-hidden">{t("gallery.ranks")}</caption>
        <thead>
          <tr>
            <th scope="col">{t("gallery.rank")}</th>
            <th scope="col">{t("gallery.device")}</th>
            <th scope="col">{t("gallery.seconds")}</th>
            <th scope="col">{t("gallery.sent")}</th>
            <th scope="col">{t("gallery.peak")}</th>
          </tr>
        </thead>
        {spread.map(([name, node]) => (
          <tbody key={name}>
            <tr>
              <th scope="rowgroup" colSpan={5}>
                {name} {node.plan && <span className="ll-work-plan">{node.plan}</span>}
              </th>
            </tr>
            {node.ranks.map((rank) => (
              <tr key={rank.rank}>
                <td>{rank.rank}</td>
                <td>{rank.device}</td>
                <td>{formatSeconds(rank.seconds)}</td>
                <td>{formatBytes(rank.sent_bytes)}</td>
                <td>{rank.peak_memory_bytes ? formatBytes(rank.peak_memory_bytes) : "–"}</td>
              </tr>
            ))}
          </tbody>
        ))}
      </table>
    </div>
  );
}
