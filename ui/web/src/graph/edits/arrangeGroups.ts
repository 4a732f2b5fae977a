/** Arranging a workflow that has groups: each is arranged inside, then moved as one thing among the others. */

import type { EditorGraph, Group, Point } from "../../types";
import { freeSpot, type Box } from "../freeSpot";
import { idsOf, itemKey, parseItem } from "../items";
import { isLink, splitTarget } from "../values";
import { arrange } from "./arrange";
import { bounds, boxOf, fitGroups, MARGIN, union, withMembers, type SizeOf } from "./members";
import { move } from "./places";

/** Arrange all nodes, those of a group beside each other: no box has a node in it that is not its own. */
export function arrangeGrouped(graph: EditorGraph, sizeOf: SizeOf, room?: Point): EditorGraph {
  const said = withMembers(graph, sizeOf);
  const filled = said.groups.filter((group) => idsOf(group.members ?? [], "node").length > 0);
  if (filled.length === 0) return besideNodes(arrange(said, { sizeOf, room }), sizeOf);
  const inside = filled.reduce((last, group) => arrangedInside(last, group, sizeOf), said);
  const homes = new Map(
    filled.flatMap(({ id, members = [] }) => idsOf(members, "node").map((name) => [name, blockOf(id)] as const)),
  );
  const blocks = filled.map((group) => [blockOf(group.id), bounds(inside, group, sizeOf)] as const);
  const drawn = arrange(condensed(inside, homes, blocks), {
    room,
    sizeOf: (name) => (homes.has(name) ? undefined : blockSize(blocks, name)) ?? sizeOf(name),
  });
  const places: Record<string, Point> = {};
  for (const [name, node] of Object.entries(drawn.nodes)) {
    const block = blocks.find(([id]) => id === name);
    if (!block) places[itemKey("node", name)] = node.at;
    else {
      const group = filled[blocks.indexOf(block)];
      const [dx, dy] = [node.at[0] - block[1][0], node.at[1] - block[1][1]];
      for (const key of group?.members ?? []) {
        const [x, y] = boxOf(inside, key, sizeOf);
        places[key] = [x + dx, y + dy];
      }
    }
  }
  return besideNodes(fitGroups(move(inside, places), sizeOf), sizeOf);
}

/** A group's nodes in order, its comments in a row below them. */
function arrangedInside(graph: EditorGraph, group: Group, sizeOf: SizeOf): EditorGraph {
  const names = idsOf(group.members ?? [], "node");
  const [left, top] = union(names.map((name) => boxOf(graph, itemKey("node", name), sizeOf)));
  const ordered = arrange(only(graph, names), { sizeOf });
  const drawn = union(names.map((name) => boxOf(ordered, itemKey("node", name), sizeOf)));
  const places = Object.fromEntries(
    names.map((name) => {
      const [x, y] = ordered.nodes[name]?.at ?? [0, 0];
      return [itemKey("node", name), [x - drawn[0] + left, y - drawn[1] + top] as Point];
    }),
  );
  let x = left;
  for (const key of group.members ?? []) {
    if (parseItem(key)?.kind !== "note") continue;
    places[key] = [x, top + drawn[3] + MARGIN];
    x += boxOf(graph, key, sizeOf)[2] + MARGIN;
  }
  return move(graph, places);
}

/** The graph with every group as one node, wired as its members are. */
function condensed(
  graph: EditorGraph,
  homes: ReadonlyMap<string, string>,
  blocks: readonly (readonly [string, Box])[],
): EditorGraph {
  const nodes: EditorGraph["nodes"] = {};
  const wires = new Map<string, Record<string, { from: string }>>();
  for (const [name, node] of Object.entries(graph.nodes)) {
    const home = homes.get(name) ?? name;
    const inputs = wires.get(home) ?? {};
    for (const value of Object.values(node.inputs)) {
      if (!isLink(value)) continue;
      const [source, socket] = splitTarget(value.from);
      const from = homes.get(source) ?? source;
      if (from !== home) inputs[`i${Object.keys(inputs).length}`] = { from: `${from}.${socket}` };
    }
    wires.set(home, inputs);
    const [x, y] = blocks.find(([id]) => id === home)?.[1] ?? node.at;
    nodes[home] ??= { type: "", version: 1, title: "", mode: "run", inputs: {}, at: [x, y] };
  }
  for (const [name, inputs] of wires) nodes[name] = { ...nodes[name]!, inputs };
  return { ...graph, nodes, groups: [], notes: [], reroutes: {}, via: {} };
}

function only(graph: EditorGraph, names: readonly string[]): EditorGraph {
  const nodes = Object.fromEntries(names.flatMap((name) => (graph.nodes[name] ? [[name, graph.nodes[name]]] : [])));
  return { ...graph, nodes, groups: [], notes: [], reroutes: {}, via: {} };
}

/** Comments of no group make room for nodes and boxes. */
function besideNodes(graph: EditorGraph, sizeOf: SizeOf): EditorGraph {
  const held = new Set(graph.groups.flatMap((group) => group.members ?? []));
  const taken = [
    ...Object.keys(graph.nodes).map((name) => boxOf(graph, itemKey("node", name), sizeOf)),
    ...graph.groups.map((group): Box => group.rect),
  ];
  const places: Record<string, Point> = {};
  for (const { id, rect } of graph.notes) {
    const key = itemKey("note", id);
    if (held.has(key)) continue;
    const at = freeSpot([rect[0], rect[1]], [[0, 0, rect[2], rect[3]]], taken);
    places[key] = at;
    taken.push([...at, rect[2], rect[3]]);
  }
  return move(graph, places);
}

/** No node can be called so. */
function blockOf(group: string): string {
  return `group ${group}`;
}

function blockSize(blocks: readonly (readonly [string, Box])[], name: string): Point | undefined {
  const box = blocks.find(([id]) => id === name)?.[1];
  return box && [box[2], box[3]];
}
