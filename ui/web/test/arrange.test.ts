import assert from "node:assert/strict";
import { test } from "node:test";
import { arrange } from "../src/graph/edits";
import { fromFile } from "../src/graph/file/workflowFile";
import { sourcesOf } from "../src/graph/order";
import type { EditorGraph, NodeFile, Point } from "../src/types";
import { shippedFiles, toyGraph } from "./graphs";

const SIZE: Point = [260, 200];
const places = (graph: EditorGraph): Point[] => Object.values(graph.nodes).map((node) => node.at);

function chainOf(count: number): EditorGraph {
  const nodes: Record<string, NodeFile> = {};
  for (let i = 0; i < count; i++) nodes[`n${i}`] = { type: "A", inputs: i ? { x: { from: `n${i - 1}.y` } } : {} };
  return fromFile({ format: 1, name: "chain", nodes });
}

const isFree = (all: readonly Point[], [width, height]: Point): boolean =>
  all.every(([x, y], index) =>
    all.slice(0, index).every(([otherX, otherY]) => Math.abs(x - otherX) >= width || Math.abs(y - otherY) >= height),
  );

for (const [name, file] of shippedFiles()) {
  test(`${name}: nodes stand right of what they need or in a later row, and never on each other`, () => {
    const graph = arrange(fromFile(file), { sizeOf: () => SIZE });
    for (const [node, { at }] of Object.entries(graph.nodes)) {
      for (const source of sourcesOf(graph, node)) {
        const [x, y] = graph.nodes[source]!.at;
        assert.ok(x + SIZE[0] < at[0] || y + SIZE[1] < at[1], node);
      }
    }
    const all = places(graph);
    assert.ok(isFree(all, SIZE));
    assert.deepEqual([Math.min(...all.map(([x]) => x)), Math.min(...all.map(([, y]) => y))], [40, 40]);
  });
}

test("a long line of nodes is written in rows, as wide as there is room", () => {
  const across = (width: number) => new Set(places(arrange(chainOf(20), { room: [width, 600] })).map(([x]) => x)).size;
  assert.deepEqual([across(256), across(900), across(1300), across(9000)], [1, 3, 4, 20]);
});

test("the first row is no higher than the room, unless one node is", () => {
  const nodes = Object.fromEntries(Array.from({ length: 30 }, (_, index) => [`n${index}`, { type: "A" }]));
  const graph = arrange(fromFile({ format: 1, name: "many", nodes }), { sizeOf: () => SIZE, room: [900, 700] });
  const bottoms = places(graph).map(([, y]) => y + SIZE[1] - 40);
  const rows = [...new Set(bottoms)].sort((a, b) => a - b);
  assert.ok(rows.filter((bottom) => bottom <= 700).length === 3);
  assert.ok(isFree(places(graph), SIZE));
});

test("a comment that a node would cover goes below", () => {
  const graph = arrange({ ...toyGraph(), notes: [{ id: "n", text: "", color: "", rect: [60, 60, 200, 100] }] });
  assert.ok(graph.notes[0]!.rect[1] > Math.max(...places(graph).map(([, y]) => y)));
});

test("sizes on the screen are kept clear of", () => {
  const { first, load, whole } = arrange(toyGraph(), { sizeOf: () => [500, 600], room: [2000, 1300] }).nodes;
  assert.ok(first!.at[0] >= load!.at[0] + 500);
  assert.ok(Math.abs(whole!.at[1] - load!.at[1]) >= 600 || whole!.at[0] !== load!.at[0]);
});

test("some nodes are arranged where they lie, the others stay", () => {
  const graph = toyGraph();
  graph.nodes.first!.at = [700, 900];
  const moved = arrange(graph, { only: ["first", "second", "nobody"] }).nodes;
  assert.deepEqual([moved.load!.at, Math.min(moved.first!.at[0], moved.second!.at[0])], [[0, 0], 600]);
});

test("circles and nothing at all are arranged too", () => {
  const graph = toyGraph();
  graph.nodes.first!.inputs.latents = { from: "second.latents" };
  assert.ok(places(arrange(graph)).flat().every(Number.isFinite));
  const empty = { ...graph, nodes: {} };
  assert.equal(arrange(empty), empty);
});

test("10,000 nodes take seconds and no deep stack", () => {
  const graph = chainOf(10_000);
  const started = performance.now();
  assert.equal(new Set(places(arrange(graph)).map(String)).size, 10_000);
  assert.ok(performance.now() - started < 10_000);
});
