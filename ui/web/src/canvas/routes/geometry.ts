/** What the router is asked and answers, in the canvas' own pixels. */

import type { Point } from "../../types";

export interface Box {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

/** A wire leaves `from` to the right and comes into `to` from the left. */
export interface WireEnds {
  id: string;
  /** Wires of one output may run in one line. */
  net: string;
  from: Point;
  to: Point;
}

export interface Asked {
  revision: number;
  boxes: readonly Box[];
  wires: readonly WireEnds[];
}

/** Corners of a wire, both ends with them: across and down by turns. */
export type Path = readonly Point[];

/** null: there is no way round the boxes. */
export type Paths = Readonly<Record<string, Path | null>>;

export interface Answered {
  revision: number;
  paths: Paths;
}

export function grown(box: Box, by: number): Box {
  return { left: box.left - by, top: box.top - by, right: box.right + by, bottom: box.bottom + by };
}

/** Whether the inner part of a box and a line, or another box, have more than an edge in common. */
export function meets(box: Box, other: Box): boolean {
  return other.left < box.right && other.right > box.left && other.top < box.bottom && other.bottom > box.top;
}

/** The lines of a path as boxes of no width or no height. */
export function linesOf(path: Path): Box[] {
  return path.slice(1).map(([x, y], index) => {
    const [fromX, fromY] = path[index] ?? [x, y];
    return { left: Math.min(x, fromX), top: Math.min(y, fromY), right: Math.max(x, fromX), bottom: Math.max(y, fromY) };
  });
}

/** Without the corners at which nothing turns. */
export function straightened(path: Path): Point[] {
  const kept: Point[] = [];
  for (const point of path) {
    const [before, last] = [kept.at(-2), kept.at(-1)];
    if (last && last[0] === point[0] && last[1] === point[1]) continue;
    const isOn = (axis: 0 | 1) => before?.[axis] === last?.[axis] && last?.[axis] === point[axis];
    if (before && last && (isOn(0) || isOn(1))) kept.pop();
    kept.push(point);
  }
  return kept;
}
