import { useId } from "react";
import { showItem } from "../../canvas/commands/focusItem";
import { titleOf } from "../../graph/catalog";
import { itemKey } from "../../graph/items";
import { t } from "../../i18n";
import { formatBytes } from "../../parts/format";
import { Icon } from "../../parts/icons";
import { Meter } from "../../parts/Meter";
import { Notice } from "../../parts/Notice";
import { useEditor } from "../../store/editor";
import type { Device, PlanNode, PlanRank } from "../../types";
import { PredictionOf } from "./PredictionOf";
import { worded } from "../../worded";

interface PlanOfNodeProps {
  node: PlanNode;
  devices: readonly Device[];
}

/** How one node would run: its plan, why, what each rank needs of its device, and how long it would take. */
export function PlanOfNode({ node, devices }: PlanOfNodeProps) {
  const id = useId();
  const title = useEditor((state) => titleOf(state.whole, state.catalog, node.node));
  return (
    <section aria-labelledby={id}>
      <h3 id={id}>
        <button type="button" className="ll-link" onClick={() => showItem(itemKey("node", node.node))}>
          {title}
        </button>
      </h3>
      {node.model && (
        <p className="ll-quiet">
          {t("panels.plan_model", { model: node.model, family: node.family, bytes: formatBytes(node.need_bytes) })}
        </p>
      )}
      {node.plan && (
        <p className="ll-plan-chosen">
          {node.num_ranks > 1 && <code>{node.plan}</code>}
          <span>{t(node.num_ranks === 1 ? "panels.ranks_one" : "panels.ranks_other", { count: node.num_ranks })}</span>
        </p>
      )}
      {node.why && <p>{t("panels.plan_why", { why: worded(node.why) })}</p>}
      {node.problem && <Notice kind="error">{worded(node.problem)}</Notice>}
      {node.ranks.length > 0 && (
        <ul className="ll-rank-list">
          {node.ranks.map((rank) => (
            <RankNeed key={rank.rank} rank={rank} device={devices.find((device) => device.name === rank.device)} />
          ))}
        </ul>
      )}
      {node.prediction && <PredictionOf prediction={node.prediction} hasRanks={node.ranks.length > 0} />}
    </section>
  );
}

/** What one rank needs, as a bar against its device; a device whose memory nobody knows has no bar. */
function RankNeed({ rank, device }: { rank: PlanRank; device: Device | undefined }) {
  const total = device?.total_bytes ?? 0;
  const text = total
    ? t("panels.rank_need", { bytes: formatBytes(rank.bytes), total: formatBytes(total) })
    : t("panels.rank_need_unknown", { bytes: formatBytes(rank.bytes) });
  return (
    <li className={`ll-rank ${rank.fits === false ? "ll-rank-over" : ""}`}>
      <span className="ll-rank-name">{t("panels.rank", { rank: rank.rank, device: rank.device })}</span>
      <span className="ll-rank-text">
        {rank.fits === false && <Icon name="warning" size={14} />}
        {text}
      </span>
      {total > 0 && (
        <Meter
          kind="level"
          label={t("panels.rank_memory", { rank: rank.rank, device: rank.device })}
          value={rank.bytes}
          max={total}
          text={text}
        />
      )}
    </li>
  );
}
