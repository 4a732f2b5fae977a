/** A drawing of a graph in columns: each node right of what it needs, and as level with its neighbours as can be.

After Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system structures" (1981): layers by
the longest way, then sweeps that sort each layer by its neighbours. */

import type { Point } from "../types";
import { spread } from "./spread";

export interface Drawn {
  names: readonly string[];
  /** What feeds each; names come after what feeds them, but for circles. */
  sources: ReadonlyMap<string, readonly string[]>;
  size: (name: string) => Point;
}

const [GAP_X, GAP_Y] = [80, 40];
const NUM_SWEEPS = 12;

/** The upper left corners; the drawing's own is [0, 0]. */
export function inColumns({ names, sources, size }: Drawn): Map<string, Point> {
  const users = reversed(names, sources);
  const columns = byColumn(names, sources, users);
  const heights = new Map(names.map((name) => [name, size(name)[1]]));
  const tops = levelled(columns, heights, [sources, users]);
  const highest = smallest(tops.values());
  const places = new Map<string, Point>();
  let x = 0;
  for (const column of columns) {
    for (const name of column) places.set(name, [x, (tops.get(name) ?? 0) - highest]);
    x += column.reduce((width, name) => Math.max(width, size(name)[0]), 0) + GAP_X;
  }
  return places;
}

type Neighbours = ReadonlyMap<string, readonly string[]>;
type Tops = ReadonlyMap<string, number>;

function reversed(names: readonly string[], sources: Neighbours): Neighbours {
  const users = new Map<string, string[]>(names.map((name) => [name, []]));
  for (const name of names) for (const source of sources.get(name) ?? []) users.get(source)?.push(name);
  return users;
}

/** Each node one column right of the last that feeds it; what nothing feeds stands beside the first that uses it. */
function byColumn(names: readonly string[], sources: Neighbours, users: Neighbours): string[][] {
  const ranks = new Map<string, number>();
  for (const name of names) {
    const before = (sources.get(name) ?? []).map((source) => ranks.get(source) ?? -1);
    ranks.set(name, 1 + before.reduce((a, b) => Math.max(a, b), -1));
  }
  const columns: string[][] = [];
  for (const name of names) {
    const isFed = (sources.get(name) ?? []).length > 0;
    const nearest = smallest((users.get(name) ?? []).map((user) => ranks.get(user) ?? 0));
    const rank = isFed || nearest === Infinity ? (ranks.get(name) ?? 0) : Math.max(0, nearest - 1);
    (columns[rank] ??= []).push(name);
  }
  return Array.from(columns, (column) => column ?? []);
}

/** Tops of all nodes: columns are sorted and set level with the column before, then with the one after, and so on. */
function levelled(columns: string[][], heights: Tops, sides: [Neighbours, Neighbours]): Tops {
  let tops = new Map<string, number>();
  for (const column of columns)
    place(
      column,
      column.map(() => 0),
      heights,
      tops,
    );
  let best = { tops: new Map(tops), cost: Infinity };
  for (let sweep = 0; sweep < NUM_SWEEPS; sweep++) {
    const side = sides[sweep % 2] ?? sides[0];
    for (const column of sweep % 2 ? [...columns].reverse() : columns) {
      const wishes = new Map(column.map((name) => [name, wish(name, side.get(name) ?? [], heights, tops)]));
      column.sort((a, b) => (wishes.get(a) ?? 0) - (wishes.get(b) ?? 0));
      place(
        column,
        column.map((name) => wishes.get(name) ?? 0),
        heights,
        tops,
      );
    }
    const cost = climb(columns, sides[0], heights, tops);
    if (cost < best.cost) best = { tops: new Map(tops), cost };
  }
  return best.tops;
}

function place(column: readonly string[], wishes: readonly number[], heights: Tops, tops: Map<string, number>): void {
  const sizes = column.map((name) => heights.get(name) ?? 0);
  spread(wishes, sizes, GAP_Y).forEach((top, index) => tops.set(column[index] ?? "", top));
}

/** The top that sets a node level with the middle of its neighbours; its own without any. */
function wish(name: string, neighbours: readonly string[], heights: Tops, tops: Tops): number {
  if (!neighbours.length) return tops.get(name) ?? 0;
  const sum = neighbours.reduce((total, other) => total + middle(other, heights, tops), 0);
  return sum / neighbours.length - (heights.get(name) ?? 0) / 2;
}

function middle(name: string, heights: Tops, tops: Tops): number {
  return (tops.get(name) ?? 0) + (heights.get(name) ?? 0) / 2;
}

/** How far all wires go up and down. */
function climb(columns: readonly string[][], sources: Neighbours, heights: Tops, tops: Tops): number {
  let total = 0;
  for (const name of columns.flat()) {
    for (const source of sources.get(name) ?? []) {
      total += Math.abs(middle(name, heights, tops) - middle(source, heights, tops));
    }
  }
  return total;
}

function smallest(numbers: Iterable<number>): number {
  let least = Infinity;
  for (const number of numbers) least = Math.min(least, number);
  return least;
}
