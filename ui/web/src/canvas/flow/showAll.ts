/** What of a workflow is in view: its beginning at a size that can be read, or all of it. React Flow's own looks at drawn
nodes only, and of many most are not drawn. */

import { getViewportForBounds } from "@xyflow/react";
import { canvasUi } from "../canvasUi";
import type { CanvasNode } from "./flowNodes";

/** Below it nodes are drawn as their titles. */
export const TITLES_ZOOM = 0.75;
/** The smallest text in a node has 12 pixels, and shall have 11 on the screen. */
const READABLE_ZOOM = 11 / 12;
const LARGEST = 1.1;
const SMALLEST = 0.05;
const SMALLEST_HUGE = 0.25;
export const HUGE = 600;
/** Room for the tools, which lie over the canvas, and for wires beside the nodes. */
const PADDING = { top: 20, right: 26, bottom: 20, left: 74 };
const PADDING_NARROW = { top: 16, right: 16, bottom: 90, left: 16 };
const NARROW = 720;

interface Bounds {
  x: number;
  y: number;
  width: number;
  height: number;
}

/** The room for nodes, in pixels of the canvas at the least zoom that can be read. */
export function readableRoom(): [number, number] | undefined {
  const { box } = canvasUi.getState();
  if (!box?.clientWidth) return undefined;
  const { top, right, bottom, left } = paddingOf(box);
  return [(box.clientWidth - left - right) / READABLE_ZOOM, (box.clientHeight - top - bottom) / READABLE_ZOOM];
}

/** All of it where it can be read, else its beginning: the first row, whole where there is room for it. */
export function showStart(duration = 0): void {
  const { flow, box } = canvasUi.getState();
  const nodes = flow?.getNodes() ?? [];
  if (!flow || !box || nodes.length === 0) return;
  const [whole, row] = [boundsOf(nodes), boundsOf(firstRow(nodes))];
  const padding = paddingOf(box);
  const [width, height] = [
    box.clientWidth - padding.left - padding.right,
    box.clientHeight - padding.top - padding.bottom,
  ];
  const zoomFor = (bounds: Bounds) => Math.min(width / bounds.width, height / bounds.height);
  const all = Math.min(zoomFor(whole), LARGEST);
  const start = Math.min(zoomFor({ ...row, width: whole.width }), 1);
  const zoom = all >= READABLE_ZOOM ? all : Math.max(start, READABLE_ZOOM);
  const spare = (room: number, size: number) => Math.max(0, (room - size * zoom) / 2);
  void flow.setViewport(
    {
      x: padding.left + spare(width, whole.width) - whole.x * zoom,
      y: padding.top + spare(height, whole.height) - whole.y * zoom,
      zoom,
    },
    { duration },
  );
}

export function showAll(duration = 0): void {
  const { flow, box } = canvasUi.getState();
  const nodes = flow?.getNodes() ?? [];
  if (!flow || !box || nodes.length === 0) return;
  const least = nodes.length > HUGE ? SMALLEST_HUGE : SMALLEST;
  const { top, right, bottom, left } = paddingOf(box);
  const padding = { top: `${top}px`, right: `${right}px`, bottom: `${bottom}px`, left: `${left}px` } as const;
  const seen = (most: number) =>
    getViewportForBounds(boundsOf(nodes), box.clientWidth, box.clientHeight, least, most, padding);
  const all = seen(LARGEST);
  // What is too small to be read is drawn as titles.
  void flow.setViewport(all.zoom < READABLE_ZOOM ? seen(TITLES_ZOOM - 0.01) : all, { duration });
}

function paddingOf(box: HTMLElement): typeof PADDING {
  return box.clientWidth < NARROW ? PADDING_NARROW : PADDING;
}

/** The nodes above the first line across that nothing stands on. */
function firstRow(nodes: readonly CanvasNode[]): CanvasNode[] {
  const sorted = [...nodes].sort((a, b) => a.position.y - b.position.y);
  let bottom = -Infinity;
  const end = sorted.findIndex((node) => {
    const isBelow = bottom > -Infinity && node.position.y >= bottom;
    bottom = Math.max(bottom, node.position.y + heightOf(node));
    return isBelow;
  });
  return end < 0 ? sorted : sorted.slice(0, end);
}

function boundsOf(nodes: readonly CanvasNode[]): Bounds {
  const x = Math.min(...nodes.map((node) => node.position.x));
  const y = Math.min(...nodes.map((node) => node.position.y));
  const right = Math.max(...nodes.map((node) => node.position.x + (node.measured?.width ?? node.width ?? 0)));
  const bottom = Math.max(...nodes.map((node) => node.position.y + heightOf(node)));
  return { x, y, width: right - x, height: bottom - y };
}

function heightOf(node: CanvasNode): number {
  return node.measured?.height ?? node.height ?? node.initialHeight ?? 0;
}
