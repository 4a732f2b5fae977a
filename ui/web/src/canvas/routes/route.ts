/** Ways of all wires round all nodes: one after the other, the short ones first; then apart from each other. */

import { linesOf, meets, type Box, type Path, type Paths, type WireEnds } from "./geometry";
import { wayOf } from "./search";
import { spread } from "./spread";

/** Distances to the boxes: wide where there is room. */
const CLEARS = [12, 5, 1];

export function route(boxes: readonly Box[], wires: readonly WireEnds[]): Paths {
  const ways = new Map<string, Path>();
  const byNet = new Map<string, Path[]>();
  // Long wires have other ways to take, short ones have not; and a long one may join a short one of the same output.
  for (const wire of [...wires].sort((a, b) => lengthOf(a) - lengthOf(b))) {
    const shared = byNet.get(wire.net) ?? [];
    const way = firstOf(CLEARS, (clear) => wayOf(wire, { boxes, clear, shared }));
    if (!way) continue;
    ways.set(wire.id, way);
    byNet.set(wire.net, [...shared, way]);
  }
  const nets = new Map(wires.map((wire) => [wire.id, wire.net]));
  const apart = spread(ways, nets, boxes);
  // Moved apart, a corner may come to lie in a box that its own run was clear of: then better two wires in one line.
  const best = (id: string): Path | null => {
    const moved = apart.get(id);
    return moved && !boxes.some((box) => linesOf(moved).some((line) => meets(box, line)))
      ? moved
      : (ways.get(id) ?? null);
  };
  return Object.fromEntries(wires.map(({ id }) => [id, best(id)]));
}

function lengthOf({ from, to }: WireEnds): number {
  return Math.abs(to[0] - from[0]) + Math.abs(to[1] - from[1]);
}

function firstOf<A, B>(items: readonly A[], find: (item: A) => B | null): B | null {
  for (const item of items) {
    const found = find(item);
    if (found) return found;
  }
  return null;
}
