/** Arrange nodes by what feeds what, from left to right. */

import { Graph, layout } from "@dagrejs/dagre";
import type { EditorGraph, Point } from "../../types";
import { inOrder, sourcesOf } from "../order";
import { has, own } from "../record";
import { changeNodes } from "./nodes";

/** Of a node that is not drawn yet: as large as the larger ones are. */
const DEFAULT_SIZE: Point = [270, 320];
const MARGIN = 40;
/** Between neighbours. */
export const [GAP_X, GAP_Y] = [80, 40];
/** Beyond it dagre takes many seconds, and of one long chain more of the stack than there is. */
const MOST_DRAWN = 1000;

type SizeOf = (name: string) => Point;

/** Arrange some nodes (all where none are named); `sizeOf` tells a node's size on the screen. */
export function arrange(
  graph: EditorGraph,
  { only, sizeOf }: { only?: Iterable<string>; sizeOf?: (node: string) => Point | undefined } = {},
): EditorGraph {
  const chosen = new Set([...(only ?? [])].filter((name) => has(graph.nodes, name)));
  const names = inOrder(graph).filter((name) => !chosen.size || chosen.has(name));
  const size: SizeOf = (name) => sizeOf?.(name) ?? own(graph.nodes, name)?.size ?? DEFAULT_SIZE;
  const corners = names.length > MOST_DRAWN ? inRows(names, size) : drawn(graph, names, size);
  const [left, top] = leastOf(corners.values());
  const [toLeft, toTop] = chosen.size
    ? leastOf(names.map((name) => graph.nodes[name]?.at ?? [0, 0]))
    : [MARGIN, MARGIN];
  return changeNodes(graph, names, (node, name) => {
    const [x, y] = corners.get(name) ?? [left, top];
    const at: Point = [Math.round(toLeft + x - left), Math.round(toTop + y - top)];
    return at[0] === node.at[0] && at[1] === node.at[1] ? node : { ...node, at };
  });
}

/** Upper left corners as dagre draws the nodes. */
function drawn(graph: EditorGraph, names: readonly string[], size: SizeOf): Map<string, Point> {
  const drawing = new Graph();
  drawing.setGraph({ rankdir: "LR", ranksep: GAP_X, nodesep: GAP_Y });
  for (const name of names) {
    const [width, height] = size(name);
    drawing.setNode(keyOf(name), { width, height });
  }
  for (const name of names) {
    for (const source of sourcesOf(graph, name)) {
      if (drawing.hasNode(keyOf(source))) drawing.setEdge(keyOf(source), keyOf(name), {});
    }
  }
  layout(drawing);
  const corner = (name: string): Point => {
    const { x, y } = drawing.node(keyOf(name));
    const [width, height] = size(name);
    return [x - width / 2, y - height / 2];
  };
  return new Map(names.map((name) => [name, corner(name)]));
}

/** Upper left corners in rows, in the order in which the nodes need each other. */
function inRows(names: readonly string[], size: SizeOf): Map<string, Point> {
  const sizes = names.map(size);
  const stepX = GAP_X + sizes.reduce((most, [width]) => Math.max(most, width), 0);
  const stepY = GAP_Y + sizes.reduce((most, [, height]) => Math.max(most, height), 0);
  const perRow = Math.ceil(Math.sqrt(names.length));
  return new Map(names.map((name, i) => [name, [stepX * (i % perRow), stepY * Math.floor(i / perRow)]]));
}

/** A node may be called "constructor", which the library's plain objects have already. */
function keyOf(name: string): string {
  return `:${name}`;
}

/** The upper left corner of what lies at some places. */
function leastOf(places: Iterable<Point>): Point {
  let [left, top] = [Infinity, Infinity];
  for (const [x, y] of places) [left, top] = [Math.min(left, x), Math.min(top, y)];
  return [left, top];
}
