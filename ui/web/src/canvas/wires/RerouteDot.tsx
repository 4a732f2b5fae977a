import { Handle, Position, type NodeProps } from "@xyflow/react";
import { memo } from "react";
import { outputSpec } from "../../graph/catalog";
import { rootOf } from "../../graph/edits/reroutes";
import { t } from "../../i18n";
import { useEditor } from "../../store/editor";
import type { RerouteNode } from "../flow/flowNodes";
import { lookOf } from "../look";
import { spokenType } from "../../parts/format";

/** A point that a wire runs through: dragged to lay the wire, and a start for more wires. */
export const RerouteDot = memo(Dot, (a, b) => a.data === b.data && a.selected === b.selected);

function Dot({ data: { id }, selected }: NodeProps<RerouteNode>) {
  const type = useEditor((state) => {
    const { graph, catalog } = state;
    return outputSpec(graph, catalog, rootOf(graph, `$${id}`))?.type ?? "";
  });
  const { tone } = lookOf(type);
  return (
    <div className={`ll-reroute ll-tone-${tone} ${selected ? "ll-reroute-selected" : ""}`} title={spokenType(type)}>
      <Handle id="in" type="target" position={Position.Left} isConnectable={false} className="ll-reroute-in" />
      <i />
      <Handle
        id="out"
        type="source"
        position={Position.Right}
        className="ll-reroute-out"
        role="button"
        tabIndex={-1}
        aria-label={t("canvas.reroute_out", { type: spokenType(type) })}
        data-type={type}
      />
    </div>
  );
}
