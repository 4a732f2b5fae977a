/** Where something can lie on the canvas without covering anything. */

import type { Point } from "../types";

/** x, y, width, height. */
export type Box = readonly [number, number, number, number];

const STEP = 40;
const MOST_RINGS = 60;
const GAP = 20;

/** The place nearest to the wanted one at which none of some boxes touches one that is there.

`boxes` lie relative to the place. Where everything is taken, the wanted place. */
export function freeSpot(wanted: Point, boxes: readonly Box[], taken: readonly Box[]): Point {
  const fits = ([x, y]: Point): boolean => !boxes.some((box) => taken.some((other) => touches(box, x, y, other)));
  for (let ring = 0; ring <= MOST_RINGS; ring++) {
    const found = ringOf(wanted, ring).find(fits);
    if (found) return found;
  }
  return wanted;
}

/** Places so many steps away, the nearer ones first; of two as near, the one below or to the right. */
function ringOf([x, y]: Point, ring: number): Point[] {
  if (ring === 0) return [[x, y]];
  const places: Point[] = [];
  for (let along = -ring; along <= ring; along++) {
    const at = along * STEP;
    const far = ring * STEP;
    places.push([x + at, y + far], [x + far, y + at], [x + at, y - far], [x - far, y + at]);
  }
  const away = ([px, py]: Point): number => Math.hypot(px - x, py - y);
  return places.sort((a, b) => away(a) - away(b));
}

function touches([x, y, width, height]: Box, dx: number, dy: number, [left, top, w, h]: Box): boolean {
  const [nx, ny] = [x + dx, y + dy];
  return nx < left + w + GAP && nx + width + GAP > left && ny < top + h + GAP && ny + height + GAP > top;
}
