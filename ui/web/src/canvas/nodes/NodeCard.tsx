import { NodeResizeControl, type NodeProps } from "@xyflow/react";
import { memo } from "react";
import { specFor } from "../../graph/catalog";
import { t } from "../../i18n";
import { useEditor } from "../../store/editor";
import type { EditorNode } from "../../types";
import { useCanvasUi } from "../canvasUi";
import { usedOutputs } from "../flow/flowEdges";
import type { CardNode } from "../flow/flowNodes";
import { colorClass, hasPicture, kindOf } from "../look";
import { NodeBody } from "./NodeBody";
import { NodeFrame } from "./NodeFrame";
import { NodeHead } from "./NodeHead";
import { nodeView } from "./nodeView";
import { useOpenAdvanced } from "./openAdvanced";
import { useMovedHandles } from "./useMovedHandles";

/** A node: head, sockets, fields and what the run says about it. Dragging and selecting do not draw it again. */
export const NodeCard = memo(Card, (a, b) => a.data === b.data && a.selected === b.selected);

const MODES: Record<EditorNode["mode"], string> = { run: "", mute: "ll-node-mute", bypass: "ll-node-bypass" };

function Card({ id, data, selected }: NodeProps<CardNode>) {
  const { name, node } = data;
  const spec = useEditor((state) => specFor(state.graph, state.catalog, node));
  const used = useEditor((state) => usedOutputs(state.graph, name));
  const isNear = useCanvasUi((ui) => ui.isNear);
  const isAdvancedOpen = useOpenAdvanced(name);
  const view = nodeView(node, spec, { used, isAdvancedOpen });
  useMovedHandles(id, isNear ? view.shape : `far ${view.shape}`);
  const title = node.title || spec?.title || node.type;
  const classes = [
    `ll-tone-${kindOf(spec).tone}`,
    selected ? "ll-node-selected" : "",
    spec ? "" : "ll-node-unknown",
    node.collapsed ? "ll-node-collapsed" : "",
    MODES[node.mode],
    colorClass(node.color),
  ];
  return (
    <>
      <NodeFrame
        name={name}
        title={title}
        about={node.title && spec ? spec.title : (spec?.help.split("\n")[0] ?? "")}
        hasPicture={hasPicture(spec)}
        className={classes.filter(Boolean).join(" ")}
        isCollapsed={node.collapsed ?? false}
        head={<NodeHead name={name} node={node} title={title} spec={spec} view={view} />}
        body={node.collapsed ? null : <NodeBody name={name} node={node} spec={spec} view={view} />}
      />
      {selected && !node.collapsed && (
        <NodeResizeControl className="ll-resize" position="bottom-right" minWidth={200} minHeight={60}>
          <span className="ll-hidden">{t("canvas.resize")}</span>
        </NodeResizeControl>
      )}
    </>
  );
}
