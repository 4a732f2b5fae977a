/** Arrange nodes by what feeds what, from left to right. */

import type { EditorGraph, Point } from "../types";
import { inColumns } from "./columns";
import { changeNodes } from "./nodes";
import { inOrder, sourcesOf } from "./order";
import { has, own } from "./record";

/** Of a node that is not drawn yet: as large as the larger ones are. */
const DEFAULT_SIZE: Point = [270, 320];
const MARGIN = 40;

/** Arrange some nodes (all where none are named); `sizeOf` tells a node's size on the screen. */
export function arrange(
  graph: EditorGraph,
  { only, sizeOf }: { only?: Iterable<string>; sizeOf?: (node: string) => Point | undefined } = {},
): EditorGraph {
  const chosen = new Set([...(only ?? [])].filter((name) => has(graph.nodes, name)));
  const names = inOrder(graph).filter((name) => !chosen.size || chosen.has(name));
  const shown = new Set(names);
  const sources = new Map(names.map((name) => [name, sourcesOf(graph, name).filter((source) => shown.has(source))]));
  const size = (name: string): Point => sizeOf?.(name) ?? own(graph.nodes, name)?.size ?? DEFAULT_SIZE;
  const places = inColumns({ names, sources, size });
  const [left, top] = chosen.size ? cornerOf(graph, names) : [MARGIN, MARGIN];
  return changeNodes(graph, names, (node, name) => {
    const [x, y] = places.get(name) ?? [0, 0];
    const at: Point = [Math.round(left + x), Math.round(top + y)];
    return at[0] === node.at[0] && at[1] === node.at[1] ? node : { ...node, at };
  });
}

/** The upper left corner of some nodes as they lie now. */
function cornerOf(graph: EditorGraph, names: readonly string[]): Point {
  return names.reduce<Point>(
    ([left, top], name) => {
      const [x, y] = own(graph.nodes, name)?.at ?? [left, top];
      return [Math.min(left, x), Math.min(top, y)];
    },
    [Infinity, Infinity],
  );
}
