/** Lays wires that run in one line beside each other, in the order in which they cross least. */

import type { Point } from "../../types";
import { linesOf, type Box, type Path } from "./geometry";

/** Distances between neighbours, the widest that there is room for. */
const SPACINGS = [11, 9, 7, 5, 4, 3, 2] as const;
/** The least distance to a box. */
const CLEAR = 10;
/** Lines whose ends are so near each other would seem to touch. */
const NEAR = 6;
const TOUCHING = 5;

/** A straight part of the wires of one output, which moves as one. Across it lies at `at`, along it from `low` to `high`. */
interface Run {
  net: string;
  /** 1 runs across (its `at` is y), 0 down (its `at` is x). */
  axis: 0 | 1;
  at: number;
  low: number;
  high: number;
  /** It ends at a socket. */
  isFixed: boolean;
  /** The runs that leave it, and to which side: -1 to smaller numbers, 1 to larger ones. */
  turns: Map<string, { run: Run; side: -1 | 1 }>;
  /** Where it may lie. */
  least: number;
  most: number;
}

interface Laid {
  id: string;
  path: Path;
  runs: Run[];
}

/** The same ways, apart from each other. `nets` names the output of each wire. */
export function spread(
  paths: ReadonlyMap<string, Path>,
  nets: ReadonlyMap<string, string>,
  boxes: readonly Box[],
): Map<string, Path> {
  const laid = layRuns(paths, nets);
  const runs = [...new Set(laid.flatMap((wire) => wire.runs))];
  for (const axis of [0, 1] as const) {
    // Anew for each axis: runs across end where runs down lie, and those have just been moved.
    measure(laid);
    const moving = runs.filter((run) => run.axis === axis);
    for (const run of moving) limit(run, boxes);
    for (const bundle of bundles(moving)) place(order(bundle));
  }
  return new Map(laid.map(({ id, path, runs }) => [id, cornersOf(path, runs)]));
}

/** The straight parts of all wires; of one output those that lie in one line are one. */
function layRuns(paths: ReadonlyMap<string, Path>, nets: ReadonlyMap<string, string>): Laid[] {
  const byLine = new Map<string, Run[]>();
  const laid: Laid[] = [];
  for (const [id, path] of paths) {
    const lines = linesOf(path);
    const runs = lines.map((line, index) => {
      const axis = index % 2 === 0 ? 1 : 0;
      const [at, low, high] = axis ? [line.top, line.left, line.right] : [line.left, line.top, line.bottom];
      const net = nets.get(id) ?? id;
      const isFixed = index === 0 || index === lines.length - 1;
      const made: Run = { net, axis, at, low, high, isFixed, turns: new Map(), least: at, most: at };
      const key = `${net} ${axis} ${at}`;
      byLine.set(key, [...(byLine.get(key) ?? []), made]);
      return made;
    });
    laid.push({ id, path, runs });
  }
  const whole = new Map([...byLine.values()].flatMap(joined));
  return laid.map((wire) => ({ ...wire, runs: wire.runs.map((run) => whole.get(run) ?? run) }));
}

/** Which run each of some in one line is part of. */
function joined(runs: Run[]): [Run, Run][] {
  const [first, ...others] = [...runs].sort((a, b) => a.low - b.low);
  if (!first) return [];
  let last = first;
  const pairs: [Run, Run][] = [[last, last]];
  for (const run of others) {
    if (run.low > last.high) last = run;
    last.high = Math.max(last.high, run.high);
    last.isFixed ||= run.isFixed;
    pairs.push([run, last]);
  }
  return pairs;
}

/** How far runs reach, and what leaves them, as they lie now. */
function measure(laid: readonly Laid[]): void {
  const numbers = new Map<Run, number>();
  for (const { runs } of laid) {
    for (const run of runs) {
      if (!numbers.has(run)) numbers.set(run, numbers.size);
      [run.low, run.high] = [Infinity, -Infinity];
      run.turns.clear();
    }
  }
  for (const { path, runs } of laid) {
    const corners = cornersOf(path, runs);
    runs.forEach((run, index) => {
      const [along, across] = run.axis ? ([0, 1] as const) : ([1, 0] as const);
      const ends = [corners[index] as Point, corners[index + 1] as Point];
      for (const [place, other] of [
        [ends[0] as Point, runs[index - 1]],
        [ends[1] as Point, runs[index + 1]],
      ] as const) {
        run.low = Math.min(run.low, place[along]);
        run.high = Math.max(run.high, place[along]);
        if (!other) continue;
        const far = (other === runs[index - 1] ? corners[index - 1] : corners[index + 2]) as Point;
        const side = far[across] < run.at ? -1 : 1;
        run.turns.set(`${numbers.get(other)} ${side}`, { run: other, side });
      }
    });
  }
}

/** How far a run may be moved before it comes near a box. */
function limit(run: Run, boxes: readonly Box[]): void {
  [run.least, run.most] = run.isFixed ? [run.at, run.at] : [-Infinity, Infinity];
  if (run.isFixed) return;
  for (const box of boxes) {
    const [low, high, start, end] = run.axis
      ? [box.left, box.right, box.top, box.bottom]
      : [box.top, box.bottom, box.left, box.right];
    if (low - CLEAR >= run.high || high + CLEAR <= run.low) continue;
    if (end <= run.at) run.least = Math.max(run.least, Math.min(run.at, end + CLEAR));
    else if (start >= run.at) run.most = Math.min(run.most, Math.max(run.at, start - CLEAR));
  }
}

/** Runs that could come in each other's way. On a side without a box they have as much room as they need. */
function bundles(all: readonly Run[]): Run[][] {
  const found = touching(all);
  for (const bundle of found) {
    const room = (bundle.length * SPACINGS[0]) / 2;
    for (const run of bundle) {
      run.least = Math.max(run.least, run.at - room);
      run.most = Math.min(run.most, run.at + room);
    }
  }
  return found;
}

function touching(runs: readonly Run[]): Run[][] {
  const found: Run[][] = [];
  const left = new Set(runs);
  for (const run of runs) {
    if (!left.delete(run)) continue;
    const bundle = [run];
    for (const one of bundle) {
      for (const other of left) {
        if (!isBeside(one, other) || other.least > one.most + NEAR || other.most < one.least - NEAR) continue;
        left.delete(other);
        bundle.push(other);
      }
    }
    found.push(bundle);
  }
  return found;
}

function isBeside(a: Run, b: Run): boolean {
  return a.low < b.high + NEAR && b.low < a.high + NEAR;
}

/** From the smaller numbers to the larger ones, so that few cross: neighbours are exchanged while that saves a crossing.
 * Not the best of all orders, which takes time beyond a dozen runs. */
function order(bundle: Run[]): Run[] {
  const runs = [...bundle].sort((a, b) => a.at - b.at || a.low - b.low);
  for (let pass = 0; pass < runs.length; pass++) {
    let isSame = true;
    for (let index = 1; index < runs.length; index++) {
      const [a, b] = [runs[index - 1] as Run, runs[index] as Run];
      if (a.net === b.net || !isBeside(a, b)) continue;
      const isPossible = b.least < a.most && !(a.isFixed && b.isFixed);
      if (!isPossible || crossings(b, a) >= crossings(a, b)) continue;
      [runs[index - 1], runs[index]] = [b, a];
      isSame = false;
    }
    if (isSame) break;
  }
  return runs;
}

/** What it costs to have `a` before `b`. */
function crossings(a: Run, b: Run): number {
  let count = 0;
  const outward = [...a.turns.values()].filter(({ side }) => side > 0).map(({ run }) => run.at);
  const inward = [...b.turns.values()].filter(({ side }) => side < 0).map(({ run }) => run.at);
  for (const at of outward) if (at > b.low && at < b.high) count++;
  for (const at of inward) if (at > a.low && at < a.high) count++;
  for (const at of outward) for (const other of inward) if (Math.abs(at - other) < NEAR) count += TOUCHING;
  return count;
}

/** Places runs in their order, as far from each other as there is room, in the middle of where they may be. */
function place(runs: readonly Run[]): void {
  for (const spacing of SPACINGS) {
    // All to one side and all to the other: what lies between is free, and its middle keeps the order and the distances.
    const first = pushed(runs, spacing, 1);
    const last = first && pushed([...runs].reverse(), spacing, -1)?.reverse();
    if (!first || !last) continue;
    runs.forEach((run, index) => {
      run.at = Math.round((first[index] as number) + (last[index] as number)) / 2;
    });
    return;
  }
}

/** Each as far to one side as it may be (`way` 1: to smaller numbers); null where there is no room. */
function pushed(runs: readonly Run[], spacing: number, way: 1 | -1): number[] | null {
  const places: number[] = [];
  for (const [index, run] of runs.entries()) {
    let at = way * (way > 0 ? run.least : run.most);
    for (let before = 0; before < index; before++) {
      const other = runs[before] as Run;
      if (other.net === run.net || (other.isFixed && run.isFixed) || !isBeside(run, other)) continue;
      at = Math.max(at, way * (places[before] as number) + spacing);
    }
    if (at > way * (way > 0 ? run.most : run.least)) return null;
    places.push(way * at);
  }
  return places;
}

/** Where the runs of a wire meet. */
function cornersOf(path: Path, runs: readonly Run[]): Point[] {
  const corners = runs.slice(1).map((run, index): Point => {
    const before = runs[index] as Run;
    return run.axis ? [before.at, run.at] : [run.at, before.at];
  });
  return [path[0] as Point, ...corners, path.at(-1) as Point];
}
