import type { InternalNode, ReactFlowInstance } from "@xyflow/react";
import { useEffect } from "react";
import { rootOf } from "../../graph/edits/reroutes";
import { editorStore, useEditor } from "../../store/editor";
import type { Point } from "../../types";
import { useCanvasUi } from "../canvasUi";
import { endName, type WireEdge } from "../flow/flowEdges";
import type { CanvasNode } from "../flow/flowNodes";
import type { Box, WireEnds } from "./geometry";
import { askRoutes, forgetRoutes, markRouting, stopWaiting } from "./routesStore";

/** React Flow measures a node some frames after it is drawn, and a drop changes several things in a row. */
const SETTLED_MS = 40;
/** Of so many wires the ways take long enough that what is drawn first comes first. */
const [MANY_WIRES, SETTLED_MANY_MS] = [300, 700];
/** Wires are shown as they are where the router takes longer than a blink. */
const PATIENCE_MS = 600;

type Flow = ReactFlowInstance<CanvasNode, WireEdge>;

/** Asks for the ways of all wires, again whenever something has come to rest elsewhere. */
export function useRoutes(nodes: readonly CanvasNode[], edges: readonly WireEdge[], isHeld: boolean): void {
  const opened = useEditor((state) => state.opened);
  const flow = useCanvasUi((ui) => ui.flow);
  useEffect(() => {
    forgetRoutes();
    const timer = setTimeout(stopWaiting, PATIENCE_MS);
    return () => clearTimeout(timer);
  }, [opened]);
  useEffect(() => {
    if (isHeld || !flow || edges.length === 0) return markRouting(false);
    markRouting(true);
    const timer = setTimeout(
      () => {
        const wires = edges.flatMap((edge) => wireEnds(flow, edge) ?? []);
        if (wires.length) askRoutes({ boxes: nodes.flatMap((node) => boxOf(flow, node) ?? []), wires });
        else markRouting(false);
      },
      edges.length > MANY_WIRES ? SETTLED_MANY_MS : SETTLED_MS,
    );
    return () => clearTimeout(timer);
  }, [nodes, edges, isHeld, flow]);
}

function wireEnds(flow: Flow, edge: WireEdge): WireEnds | null {
  const [source, target] = [flow.getInternalNode(edge.source), flow.getInternalNode(edge.target)];
  const from = source && handlePlace(source, "source", edge.sourceHandle);
  const to = target && handlePlace(target, "target", edge.targetHandle);
  if (!from || !to) return null;
  const net = rootOf(editorStore.getState().graph, endName(edge.source, edge.sourceHandle ?? ""));
  // What leaves a reroute begins there: it shares no line with what comes to it.
  return { id: edge.id, net: edge.source.startsWith("r:") ? `${edge.source} ${net}` : net, from, to };
}

/** Where wires end at a handle, as React Flow has it. */
function handlePlace(
  { internals }: InternalNode<CanvasNode>,
  side: "source" | "target",
  id: string | null | undefined,
): Point | null {
  const handle = internals.handleBounds?.[side]?.find((bound) => bound.id === id);
  if (!handle) return null;
  const { x, y } = internals.positionAbsolute;
  return [x + handle.x + (side === "source" ? handle.width : 0), y + handle.y + handle.height / 2];
}

function boxOf(flow: Flow, { id, type }: CanvasNode): Box | null {
  const node = type === "card" || type === "note" ? flow.getInternalNode(id) : undefined;
  if (!node) return null;
  const { x, y } = node.internals.positionAbsolute;
  const width = node.measured.width ?? node.width ?? node.initialWidth ?? 0;
  const height = node.measured.height ?? node.height ?? node.initialHeight ?? 0;
  return { left: x, top: y, right: x + width, bottom: y + height };
}
