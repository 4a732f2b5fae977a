/** Lining things up, and giving them equal gaps. */

import type { EditorGraph, Point } from "../../types";
import { boxOf, together, type SizeOf } from "./members";
import { move } from "./places";

/** An edge, or the middles: "column" puts them on one upright line, "row" on one level line. */
export type Alignment = "left" | "right" | "top" | "bottom" | "column" | "row";
export type Direction = "across" | "down";

const ALONG: Record<Alignment, 0 | 1> = { left: 0, right: 0, column: 0, top: 1, bottom: 1, row: 1 };
/** Where in a thing the line runs, and where in what holds all of them. */
const PART: Record<Alignment, number> = { left: 0, top: 0, column: 0.5, row: 0.5, right: 1, bottom: 1 };

/** Put things (by item key; groups with what they hold) on a line. */
export function align(graph: EditorGraph, keys: readonly string[], how: Alignment, sizeOf: SizeOf): EditorGraph {
  const along = ALONG[how];
  const boxes = keys.map((key) => ({ key, box: boxOf(graph, key, sizeOf) }));
  const start = Math.min(...boxes.map(({ box }) => box[along]));
  const end = Math.max(...boxes.map(({ box }) => box[along] + (box[along + 2] ?? 0)));
  const places = boxes.map(({ key, box }) => {
    const to = start + PART[how] * (end - start - (box[along + 2] ?? 0));
    return [key, along === 0 ? [Math.round(to), box[1]] : [box[0], Math.round(to)]] as const;
  });
  return placed(graph, places, sizeOf);
}

/** Give things equal gaps; the outer ones stay where they are. */
export function distribute(graph: EditorGraph, keys: readonly string[], how: Direction, sizeOf: SizeOf): EditorGraph {
  const along = how === "across" ? 0 : 1;
  const boxes = keys
    .map((key) => ({ key, box: boxOf(graph, key, sizeOf) }))
    .sort((a, b) => a.box[along] - b.box[along]);
  const [first, last] = [boxes[0], boxes.at(-1)];
  if (!first || !last || boxes.length < 3) return graph;
  const room = last.box[along] + (last.box[along + 2] ?? 0) - first.box[along];
  const filled = boxes.reduce((sum, { box }) => sum + (box[along + 2] ?? 0), 0);
  const gap = (room - filled) / (boxes.length - 1);
  let next = first.box[along];
  const places = boxes.map(({ key, box }) => {
    const at = Math.round(next);
    next += (box[along + 2] ?? 0) + gap;
    return [key, along === 0 ? [at, box[1]] : [box[0], at]] as const;
  });
  return placed(graph, places, sizeOf);
}

function placed(
  graph: EditorGraph,
  places: readonly (readonly [string, readonly number[]])[],
  sizeOf: SizeOf,
): EditorGraph {
  return move(graph, together(graph, Object.fromEntries(places) as Record<string, Point>, sizeOf));
}
