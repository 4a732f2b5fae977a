/** The line of a wire as an SVG path. */

import type { Point } from "../../types";
import type { Path } from "../routes/geometry";

const CORNER = 10;
/** A node that was drawn meanwhile may be so much off what was estimated. */
const NEAR = 4;

/** A way with round corners, its ends where the sockets are now; null where they went elsewhere since. */
export function wirePath(path: Path, from: Point, to: Point): string | null {
  const [first, last] = [path[0], path.at(-1)];
  if (!first || !last || !isNear(first, from) || !isNear(last, to)) return null;
  const points = path.map((point): Point => [...point]);
  // The first and the last line run across.
  if (points.length > 3) {
    (points[1] as Point)[1] = from[1];
    (points[points.length - 2] as Point)[1] = to[1];
  }
  points[0] = from;
  points[points.length - 1] = to;
  const parts = [`M${from[0]} ${from[1]}`];
  for (let index = 1; index < points.length - 1; index++) {
    const [before, at, after] = [points[index - 1], points[index], points[index + 1]] as [Point, Point, Point];
    const radius = Math.min(CORNER, distance(before, at) / 2, distance(at, after) / 2);
    const [start, end] = [toward(at, before, radius), toward(at, after, radius)];
    parts.push(`L${start[0]} ${start[1]}Q${at[0]} ${at[1]} ${end[0]} ${end[1]}`);
  }
  return [...parts, `L${to[0]} ${to[1]}`].join("");
}

function isNear(a: Point, b: Point): boolean {
  return Math.abs(a[0] - b[0]) <= NEAR && Math.abs(a[1] - b[1]) <= NEAR;
}

function distance(a: Point, b: Point): number {
  return Math.hypot(b[0] - a[0], b[1] - a[1]);
}

function toward(from: Point, to: Point, by: number): Point {
  const length = distance(from, to) || 1;
  return [from[0] + ((to[0] - from[0]) * by) / length, from[1] + ((to[1] - from[1]) * by) / length];
}
