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

for (const [name, file] of shippedFiles()) {
  test(`${name}: nodes stand right of what they need and never on each other`, () => {
    const graph = arrange(fromFile(file));
    for (const [node, { at }] of Object.entries(graph.nodes)) {
      for (const source of sourcesOf(graph, node)) assert.ok(graph.nodes[source]!.at[0] + SIZE[0] < at[0], node);
    }
    const all = places(graph);
    all.forEach(([x, y], index) => {
      for (const [otherX, otherY] of all.slice(0, index)) {
        assert.ok(Math.abs(x - otherX) >= SIZE[0] || Math.abs(y - otherY) >= SIZE[1]);
      }
    });
    assert.deepEqual([Math.min(...all.map(([x]) => x)), Math.min(...all.map(([, y]) => y))], [40, 40]);
  });
}

test("a straight line of nodes is a straight line", () => {
  assert.equal(new Set(places(chainOf(20)).map(([, y]) => y)).size, 1);
});

test("sizes on the screen are kept clear of", () => {
  const { first, load, whole } = arrange(toyGraph(), { sizeOf: () => [500, 600] }).nodes;
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
