import assert from "node:assert/strict";
import { test } from "node:test";
import { addReroute, connect } from "../src/graph/edits";
import { canConnect, canFeed, fitting } from "../src/graph/wireTypes";
import { TOYS, toyGraph } from "./graphs";

test("equal types connect, and whole numbers and choices feed numbers and text; nothing else does", () => {
  const pairs = TOYS.types.flatMap((output) => TOYS.types.map((input) => [output, input] as const));
  const wider = pairs.filter(([output, input]) => output !== input && canFeed(output, input));
  assert.deepEqual(wider, [
    ["int", "float"],
    ["choice", "string"],
  ]);
  assert.ok(TOYS.types.every((type) => canFeed(type, type)));
  assert.ok(!canFeed("constructor", "x") && !canFeed("toString", "x"));
});

const CASES: [from: string, to: string, reason: RegExp | ""][] = [
  ["load.model", "first.model", ""],
  ["whole.int", "first.strength", ""],
  ["pick.choice", "first.name", ""],
  ["whole.int", "first.name", /int gives int, and name takes string; link one of those/],
  ["pick.choice", "first.method", ""],
  ["load.model", "first.latents", /model gives Model, and latents takes Latents/],
  ["first.latents", "first.latents", /cannot feed itself/],
  ["second.latents", "first.latents", /Work already needs the result of Work.*circle/],
  ["first.latents", "second.latents", ""],
  ["load.nothing", "first.model", /Load has no output nothing/],
  ["load.model", "first.nothing", /Work has no input nothing/],
  ["constructor.x", "first.model", /not there any more/],
  ["load.model", "toString.model", /not there any more/],
  ["$r9", "first.model", /not there any more/],
];
for (const [from, to, reason] of CASES) {
  test(`${from} to ${to}: ${reason || "allowed"}`, () => {
    const got = canConnect(toyGraph(), TOYS, from, to);
    if (reason) assert.match(got, reason);
    else assert.equal(got, "");
  });
}

test("a long way round is a circle too, and one that a reroute hides", () => {
  let graph = addReroute(toyGraph(), { id: "r1", input: "second.latents", at: [0, 0] });
  graph = { ...graph, nodes: { ...graph.nodes, third: { ...graph.nodes.first!, inputs: {} } } };
  graph = connect(graph, "second.latents", "third.latents");
  assert.match(canConnect(graph, TOYS, "third.latents", "first.latents"), /circle/);
  assert.equal(canConnect(graph, TOYS, "$r1", "third.latents"), "");
  assert.match(canConnect(graph, TOYS, "$r1", "first.latents"), /itself/);
});

test("a node whose type is not installed takes and gives anything, as the checker has it", () => {
  const graph = toyGraph();
  graph.nodes.odd = { ...graph.nodes.load!, type: "NobodyKnowsIt" };
  assert.equal(canConnect(graph, TOYS, "odd.anything", "first.model"), "");
  assert.equal(canConnect(graph, TOYS, "load.model", "odd.anything"), "");
});

test("the palette offers what fits a loose wire, exact types first", () => {
  const names = (type: string, side: "input" | "output") =>
    fitting(TOYS, { type, side }).map(({ spec, socket }) => `${spec.id}.${socket}`);
  assert.deepEqual(names("int", "output"), ["Whole.value", "Work.steps"]);
  assert.deepEqual(names("float", "input"), ["Whole.int"]);
  assert.deepEqual(names("Latents", "output"), ["Work.latents"]);
  assert.deepEqual(names("string", "output"), ["Load.source", "Work.name"]);
  assert.deepEqual(names("Nothing", "output"), []);
});
