/** The view that holds everything. React Flow's own looks at drawn nodes only, and of many most are not drawn. */

import { getViewportForBounds } from "@xyflow/react";
import { canvasUi } from "../canvasUi";
import type { CanvasNode } from "./flowNodes";

/** Room for the tools, which lie over the canvas. */
const PADDING = { top: "28px", right: "28px", bottom: "28px", left: "76px" } as const;
const PADDING_NARROW = { top: "20px", right: "16px", bottom: "90px", left: "16px" } as const;
const LARGEST = 1.1;
const SMALLEST = 0.05;
/** On a narrow screen the middle at a size that can be read says more than all of it. */
const NARROW = 720;
const SMALLEST_NARROW = 0.5;
const SMALLEST_HUGE = 0.25;
export const HUGE = 600;

export function showAll(duration = 0): void {
  const { flow, box } = canvasUi.getState();
  const nodes = flow?.getNodes() ?? [];
  if (!flow || !box || nodes.length === 0) return;
  const bounds = boundsOf(nodes);
  const isNarrow = box.clientWidth < NARROW;
  const least = isNarrow ? SMALLEST_NARROW : nodes.length > HUGE ? SMALLEST_HUGE : SMALLEST;
  const padding = isNarrow ? PADDING_NARROW : PADDING;
  void flow.setViewport(getViewportForBounds(bounds, box.clientWidth, box.clientHeight, least, LARGEST, padding), {
    duration,
  });
}

function boundsOf(nodes: readonly CanvasNode[]): { x: number; y: number; width: number; height: number } {
  const x = Math.min(...nodes.map((node) => node.position.x));
  const y = Math.min(...nodes.map((node) => node.position.y));
  const right = Math.max(...nodes.map((node) => node.position.x + (node.measured?.width ?? node.width ?? 0)));
  const bottom = Math.max(...nodes.map((node) => node.position.y + heightOf(node)));
  return { x, y, width: right - x, height: bottom - y };
}

function heightOf(node: CanvasNode): number {
  return node.measured?.height ?? node.height ?? node.initialHeight ?? 0;
}
