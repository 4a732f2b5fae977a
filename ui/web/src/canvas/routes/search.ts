/** The cheapest way of one wire round the boxes: A* over the lines along their edges. */

import type { Point } from "../../types";
import { grown, linesOf, meets, straightened, type Box, type Path, type WireEnds } from "./geometry";

/** A turn costs as much as a way of so many pixels. */
const TURN = 48;
/** Of a way that another wire of the same output takes already. */
const SHARED = 0.25;
/** Around both ends; where there is no way within, boxes farther away are looked at too. The grid grows with the square
 * of the boxes in it, and most wires have none between their ends. */
const REACHES = [120, 600, Infinity];
const RIGHT = 0;
const DOWN = 1;
const LEFT = 2;
const UP = 3;

interface Search {
  boxes: readonly Box[];
  /** The least distance to a box. */
  clear: number;
  /** Ways of the same output. */
  shared: readonly Path[];
}

/** null where boxes leave no way. */
export function wayOf(wire: WireEnds, { boxes, clear, shared }: Search): Path | null {
  const start: Point = [wire.from[0] + clear, wire.from[1]];
  const end: Point = [wire.to[0] - clear, wire.to[1]];
  const ends: Box = grown(linesOf([start, end])[0] as Box, clear);
  for (const reach of REACHES) {
    const region = grown(ends, reach);
    const near = boxes.map((box) => grown(box, clear)).filter((box) => meets(box, region));
    const found = new Grid(start, end, near, shared.flatMap(linesOf), region).search();
    if (found) return straightened([wire.from, ...found, wire.to]);
    if (near.length === boxes.length) break;
  }
  return null;
}

/** Lines through the edges of all boxes and through both ends: a shortest way bends nowhere else.
 *
 *     +----|----+---------|---
 *     | A  |    |   from -+      a place: where two lines cross; a state: a place and a heading, for a turn costs
 *     +----|----+---------|---
 */
class Grid {
  private readonly xs: number[];
  private readonly ys: number[];
  /** By place: whether the way to the next place right, and down, is closed; and whether it is shared. */
  private readonly closed: [Uint8Array, Uint8Array];
  private readonly cheap: [Uint8Array, Uint8Array];
  private readonly least: number;

  constructor(
    private readonly start: Point,
    private readonly end: Point,
    boxes: readonly Box[],
    shared: readonly Box[],
    region: Box,
  ) {
    const isIn = (low: number, high: number) => (value: number) => value >= low && value <= high;
    const lines = shared.filter((line) => meets(region, grown(line, 0.5)));
    this.xs = sorted(
      [start[0], end[0], ...boxes.flatMap((box) => [box.left, box.right]), ...lines.map((line) => line.left)].filter(
        isIn(region.left, region.right),
      ),
    );
    this.ys = sorted(
      [start[1], end[1], ...boxes.flatMap((box) => [box.top, box.bottom]), ...lines.map((line) => line.top)].filter(
        isIn(region.top, region.bottom),
      ),
    );
    const size = this.xs.length * this.ys.length;
    this.closed = [new Uint8Array(size), new Uint8Array(size)];
    this.cheap = [new Uint8Array(size), new Uint8Array(size)];
    for (const box of boxes) this.mark(this.closed, box, false);
    for (const line of lines) this.mark(this.cheap, line, true);
    this.least = lines.length ? SHARED : 1;
  }

  /** Marks the steps that lead through a box, or along a line. */
  private mark([across, down]: [Uint8Array, Uint8Array], box: Box, isLine: boolean): void {
    const { xs, ys } = this;
    const width = xs.length;
    const isWithin = (value: number, low: number, high: number) =>
      isLine ? value >= low && value <= high : value > low && value < high;
    const firstX = Math.max(0, firstAtLeast(xs, box.left) - 1);
    const firstY = Math.max(0, firstAtLeast(ys, box.top) - 1);
    for (let y = firstY; y < ys.length && (ys[y] as number) <= box.bottom; y++) {
      for (let x = firstX; x < width && (xs[x] as number) <= box.right; x++) {
        const [atX, atY] = [xs[x] as number, ys[y] as number];
        const [nextX, nextY] = [xs[x + 1] ?? Infinity, ys[y + 1] ?? Infinity];
        const isAlongX = isLine ? atX >= box.left && nextX <= box.right : nextX > box.left && atX < box.right;
        const isAlongY = isLine ? atY >= box.top && nextY <= box.bottom : nextY > box.top && atY < box.bottom;
        if (isAlongX && isWithin(atY, box.top, box.bottom)) across[y * width + x] = 1;
        if (isAlongY && isWithin(atX, box.left, box.right)) down[y * width + x] = 1;
      }
    }
  }

  search(): Point[] | null {
    const { xs, ys, end } = this;
    const width = xs.length;
    const place = ([x, y]: Point) => ys.indexOf(y) * width + xs.indexOf(x);
    const [first, last] = [place(this.start), place(end)];
    const costs = new Float64Array(width * ys.length * 4).fill(Infinity);
    const before = new Int32Array(costs.length).fill(-1);
    // Never more than the way really costs, or A* would stop at one that is not the cheapest: turns are left out, and
    // where a shared line may be taken every pixel counts as little as on it.
    const rest = (at: number) =>
      this.least *
      (Math.abs((xs[at % width] as number) - end[0]) + Math.abs((ys[Math.floor(at / width)] as number) - end[1]));
    const heap = new Heap();
    costs[first * 4 + RIGHT] = 0;
    heap.push(first * 4 + RIGHT, rest(first));
    for (let state = heap.pop(); state >= 0; state = heap.pop()) {
      const [at, heading] = [state >> 2, state & 3];
      if (at === last && heading !== LEFT) return this.back(state, before);
      const cost = costs[state] as number;
      for (const turn of [0, 1, 3]) {
        // not 2: back over the line that it came by
        const next = (heading + turn) & 3;
        const step = this.step(at, next);
        if (!step) continue;
        const [to, length] = step;
        // The end is come into from the left.
        const atEnd = to === last && next !== RIGHT ? TURN : 0;
        const sum = cost + length + (turn ? TURN : 0) + atEnd;
        const reached = to * 4 + next;
        if (sum >= (costs[reached] as number)) continue;
        costs[reached] = sum;
        before[reached] = state;
        heap.push(reached, sum + rest(to));
      }
    }
    return null;
  }

  /** The next place in a direction, with the cost of the way there. */
  private step(at: number, heading: number): [number, number] | null {
    const { xs, ys } = this;
    const width = xs.length;
    const [x, y] = [at % width, Math.floor(at / width)];
    const isAcross = heading === RIGHT || heading === LEFT;
    const [toX, toY] = [
      x + (heading === RIGHT ? 1 : heading === LEFT ? -1 : 0),
      y + (heading === DOWN ? 1 : heading === UP ? -1 : 0),
    ];
    if (toX < 0 || toY < 0 || toX >= width || toY >= ys.length) return null;
    const to = toY * width + toX;
    const edge = Math.min(at, to);
    const axis = isAcross ? 0 : 1;
    if (this.closed[axis][edge]) return null;
    const length = isAcross
      ? Math.abs((xs[toX] as number) - (xs[x] as number))
      : Math.abs((ys[toY] as number) - (ys[y] as number));
    return [to, length * (this.cheap[axis][edge] ? SHARED : 1)];
  }

  private back(state: number, before: Int32Array): Point[] {
    const width = this.xs.length;
    const points: Point[] = [];
    for (let at = state; at >= 0; at = before[at] ?? -1) {
      const place = at >> 2;
      points.push([this.xs[place % width] as number, this.ys[Math.floor(place / width)] as number]);
    }
    return points.reverse();
  }
}

/** States by cost, the least first. */
class Heap {
  private readonly items: [number, number][] = [];

  push(state: number, cost: number): void {
    const { items } = this;
    let at = items.length;
    items.push([state, cost]);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if ((items[parent] as [number, number])[1] <= cost) break;
      items[at] = items[parent] as [number, number];
      at = parent;
    }
    items[at] = [state, cost];
  }

  /** -1: nothing is left. */
  pop(): number {
    const { items } = this;
    const top = items[0];
    const last = items.pop();
    if (!top || !last) return -1;
    const count = items.length;
    if (count > 0) {
      let at = 0;
      for (;;) {
        let child = 2 * at + 1;
        if (child >= count) break;
        if (child + 1 < count && (items[child + 1] as [number, number])[1] < (items[child] as [number, number])[1])
          child++;
        if ((items[child] as [number, number])[1] >= last[1]) break;
        items[at] = items[child] as [number, number];
        at = child;
      }
      items[at] = last;
    }
    return top[0];
  }
}

function sorted(values: readonly number[]): number[] {
  return [...new Set(values)].sort((a, b) => a - b);
}

function firstAtLeast(values: readonly number[], least: number): number {
  let [low, high] = [0, values.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((values[middle] as number) < least) low = middle + 1;
    else high = middle;
  }
  return low;
}
