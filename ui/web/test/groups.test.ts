import assert from "node:assert/strict";
import { test } from "node:test";
import { addGroup, addNote, arrangeGrouped, moveGrouped, removeItems, rename } from "../src/graph/edits";
import { membersOf, setMembers, withMembers } from "../src/graph/edits/members";
import { copy, paste } from "../src/graph/file/clip";
import { fromFile, toFile } from "../src/graph/file/workflowFile";
import { freeSpot, type Box } from "../src/graph/freeSpot";
import type { EditorGraph, Point } from "../src/types";
import { shipped, toyGraph } from "./graphs";

const SIZE: Point = [200, 100];
const sizeOf = (): Point => SIZE;

/** load and first are in one box, with a comment; whole lies in it, too, and is no member. */
function grouped(): EditorGraph {
  const noted = addNote(toyGraph(), { id: "c", text: "hm", color: "", rect: [0, 120, 90, 50] });
  const group = { id: "g", title: "Two", color: "", rect: [-50, -80, 600, 500] as [number, number, number, number] };
  return addGroup(noted, { ...group, members: ["n:load", "n:first", "c:c"] });
}

const held = (graph: EditorGraph): string[] => [...membersOf(graph, graph.groups[0]!, sizeOf)].sort();
const at = (graph: EditorGraph, name: string): Point => graph.nodes[name]!.at;
const boxOf = (graph: EditorGraph, name: string): Box => [...at(graph, name), ...SIZE];
const overlap = ([ax, ay, aw, ah]: Box, [bx, by, bw, bh]: Box): boolean =>
  ax < bx + bw && bx < ax + aw && ay < by + bh && by < ay + ah;
const isInside = ([ax, ay, aw, ah]: Box, [bx, by, bw, bh]: Box): boolean =>
  ax >= bx && ay >= by && ax + aw <= bx + bw && ay + ah <= by + bh;

test("members move along, what only lies in the box does not", () => {
  const moved = moveGrouped(grouped(), { "g:g": [50, 20] }, sizeOf);
  assert.deepEqual(
    [at(moved, "load"), at(moved, "first"), at(moved, "whole")],
    [
      [100, 100],
      [400, 100],
      [0, 200],
    ],
  );
  assert.deepEqual(moved.notes[0]!.rect, [100, 220, 90, 50]);
});

test("what is moved into a box belongs to it, what is moved out does not, and the box grows round its members", () => {
  const into = moveGrouped(grouped(), { "n:second": [400, 300] }, sizeOf);
  assert.deepEqual(held(into), ["c:c", "n:first", "n:load", "n:second"]);
  assert.ok(isInside(boxOf(into, "second"), into.groups[0]!.rect));
  const out = moveGrouped(into, { "n:load": [2000, 0] }, sizeOf);
  assert.deepEqual(held(out), ["c:c", "n:first", "n:second"]);
  assert.deepEqual(out.groups[0]!.rect, into.groups[0]!.rect);
});

test("of two boxes one in the other, the smaller one takes what is moved in", () => {
  const two = addGroup(grouped(), { id: "small", title: "", color: "", rect: [300, 200, 240, 200], members: [] });
  const moved = moveGrouped(two, { "n:second": [310, 240] }, sizeOf);
  assert.deepEqual(moved.groups[1]!.members, ["n:second"]);
  assert.ok(!held(moved).includes("n:second"));
});

test("a group of an older file holds what lies in it whole, and its file stays as it was until something moves", () => {
  const { members: _, ...old } = grouped().groups[0]!;
  const graph = { ...grouped(), groups: [old] };
  assert.deepEqual(held(graph), ["c:c", "n:first", "n:load", "n:whole"]);
  assert.deepEqual(toFile(fromFile(toFile(graph))), toFile(graph));
  assert.deepEqual(held(withMembers(graph, sizeOf)), held(graph));
});

test("membership is in the file, follows names, copies and removals, and nothing is in two groups", () => {
  assert.deepEqual(fromFile(toFile(grouped())), grouped());
  assert.deepEqual(held(rename(grouped(), "load", "model")), ["c:c", "n:first", "n:model"]);
  assert.deepEqual(held(removeItems(grouped(), ["n:load"])), ["c:c", "n:first"]);
  const clip = copy(grouped(), ["g:g", "n:load"])!;
  assert.deepEqual(paste(grouped(), clip, [0, 900]).graph.groups[1]!.members, ["n:load_2"]);
  const two = addGroup(grouped(), { id: "h", title: "", color: "", rect: [0, 0, 9, 9], members: [] });
  assert.deepEqual(
    setMembers(two, ["n:load"], "h").groups.map(({ members }) => members),
    [["n:first", "c:c"], ["n:load"]],
  );
});

test("a file that says nonsense of its members is read without it", () => {
  const file = toFile(grouped());
  const groups = [
    { id: "a", rect: [0, 0, 9, 9], members: 5 },
    { id: "b", rect: [0, 0, 9, 9], members: [1, "x", "n:gone"] },
  ];
  const read = fromFile({ ...file, layout: { ...file.layout, $groups: groups } });
  assert.deepEqual(
    read.groups.map(({ members }) => members),
    [[], ["n:gone"]],
  );
  assert.deepEqual(membersOf(read, read.groups[1]!, sizeOf), []);
});

test("arranging keeps each box round its members, everyone else out of it, and comments off the nodes", () => {
  for (const start of [
    grouped(),
    addGroup(shipped("prompt_grid.json"), {
      id: "g",
      title: "",
      color: "",
      rect: [0, 0, 9, 9],
      members: Object.keys(shipped("prompt_grid.json").nodes)
        .slice(1, 4)
        .map((name) => `n:${name}`),
    }),
  ]) {
    const graph = arrangeGrouped(start, sizeOf);
    const { rect, members = [] } = graph.groups[0]!;
    for (const name of Object.keys(graph.nodes)) {
      const box = boxOf(graph, name);
      if (members.includes(`n:${name}`)) assert.ok(isInside(box, rect), `${name} is not in its box`);
      else assert.ok(!overlap(box, rect), `${name} is in a box that is not its own`);
      for (const other of Object.keys(graph.nodes)) assert.ok(other === name || !overlap(box, boxOf(graph, other)));
      for (const note of graph.notes) assert.ok(!overlap(box, note.rect), `a comment lies on ${name}`);
    }
  }
});

test("a free spot is the nearest one where nothing is covered, and the wanted one where that is free", () => {
  const taken: Box[] = [[0, 0, 200, 100]];
  assert.deepEqual(freeSpot([500, 0], [[0, 0, 200, 100]], taken), [500, 0]);
  const at = freeSpot([10, 10], [[0, 0, 200, 100]], taken);
  assert.ok(!overlap([...at, 200, 100], taken[0]!));
  assert.ok(Math.hypot(at[0] - 10, at[1] - 10) < 160);
  assert.deepEqual(freeSpot([0, 0], [[0, 0, 9, 9]], [[-1e6, -1e6, 2e6, 2e6]]), [0, 0]); // nowhere
});
