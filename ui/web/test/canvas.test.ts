import assert from "node:assert/strict";
import { test } from "node:test";
import { endName, flowEdges, usedOutputs } from "../src/canvas/flow/flowEdges";
import { flowNodes, MANY, type Overlay } from "../src/canvas/flow/flowNodes";
import { commonInputs } from "../src/canvas/inspector/commonInputs";
import { lookOf } from "../src/canvas/look";
import { nodeView } from "../src/canvas/nodes/nodeView";
import { problemsOf, worstOf } from "../src/canvas/nodes/problemsOf";
import { found } from "../src/canvas/popups/searchRank";
import { addReroute, connect, move, setColor, setInput, setMode } from "../src/graph/edits";
import { fromFile } from "../src/graph/file/workflowFile";
import type { Catalog, EditorGraph, NodeFile, Problem } from "../src/types";
import { input, spec } from "./graphs";

const NONE: ReadonlySet<string> = new Set();
const STILL: Overlay = { at: new Map(), size: new Map(), measured: new Map() };

const CATALOG: Catalog = {
  version: "1",
  types: ["Model", "Latents"],
  nodes: [
    spec("Load", [input("source", "string", { default: "x" }), input("device", "string", { advanced: true })], {
      model: "Model",
    }),
    spec("Make", [input("model", "Model", { required: true }), input("seed", "int", { default: 0 })], {
      latents: "Latents",
    }),
    spec("Draw", [input("latents", "Latents"), input("seed", "int", { default: 0 })], { latents: "Latents" }),
  ],
};

function toy(extra: Record<string, NodeFile> = {}): EditorGraph {
  return fromFile({
    format: 1,
    name: "toy",
    nodes: {
      load: { type: "Load" },
      make: { type: "Make", inputs: { model: { from: "load.model" }, seed: 7 } },
      draw: { type: "Draw", inputs: { latents: { from: "make.latents" } } },
      ...extra,
    },
  });
}

test("a change of one node leaves the others' objects alone", () => {
  const graph = toy();
  const first = flowNodes(graph, CATALOG, NONE, STILL, []);
  const changed = setInput(graph, "make", "seed", 8);
  const second = flowNodes(changed, CATALOG, NONE, STILL, first);
  const kept = second.filter((node, index) => node === first[index]).map((node) => node.id);
  assert.deepEqual(kept, ["n:load", "n:draw"]);
  assert.equal(flowNodes({ ...changed, name: "other" }, CATALOG, NONE, STILL, second), second);
});

test("a moved node keeps its data, so that its card is not drawn again", () => {
  const graph = toy();
  const first = flowNodes(graph, CATALOG, NONE, STILL, []);
  const second = flowNodes(move(graph, { "n:make": [500, 90] }), CATALOG, NONE, STILL, first);
  const [before, after] = [first, second].map((nodes) => nodes.find((node) => node.id === "n:make"));
  assert.deepEqual(after?.position, { x: 500, y: 90 });
  assert.equal(after?.data, before?.data);
});

test("a coloured node is drawn again", () => {
  const graph = toy();
  const first = flowNodes(graph, CATALOG, NONE, STILL, []);
  const second = flowNodes(setColor(graph, ["n:make"], "red"), CATALOG, NONE, STILL, first);
  assert.notEqual(second[1]?.data, first[1]?.data);
});

test("a hand that drags moves the node on the screen only", () => {
  const graph = toy();
  const held = { ...STILL, at: new Map([["n:load", [3, 4] as [number, number]]]) };
  const nodes = flowNodes(graph, CATALOG, NONE, held, []);
  assert.deepEqual(nodes[0]?.position, { x: 3, y: 4 });
});

test("of many nodes the handles are known before they are drawn, until they are measured", () => {
  const many = Array.from({ length: MANY + 1 }, (_, index) => [`m${index}`, { type: "Make" }] as const);
  const graph = toy(Object.fromEntries(many));
  const nodes = flowNodes(graph, CATALOG, NONE, STILL, []);
  assert.deepEqual(
    nodes.find((node) => node.id === "n:make")?.handles?.map((handle) => handle.id),
    ["model", "latents", "seed"],
  );
  const measured = { ...STILL, measured: new Map([["n:make", { width: 264, height: 90 }]]) };
  const later = flowNodes(graph, CATALOG, NONE, measured, nodes);
  assert.equal(later.find((node) => node.id === "n:make")?.handles, undefined);
});

test("wires have the type of their source and keep their objects", () => {
  const graph = toy();
  const first = flowEdges(graph, CATALOG, NONE, []);
  assert.deepEqual(
    first.map((edge) => [edge.id, edge.source, edge.data?.type]),
    [
      ["e:make.model", "n:load", "Model"],
      ["e:draw.latents", "n:make", "Latents"],
    ],
  );
  const second = flowEdges(setMode(graph, ["load"], "mute"), CATALOG, NONE, first);
  assert.equal(second[1], first[1]);
  assert.equal(second[0]?.data?.isMuted, true);
});

test("a wire through a reroute is drawn in two pieces and stays one link", () => {
  const graph = addReroute(toy(), { id: "r1", input: "draw.latents", at: [9, 9] });
  const edges = flowEdges(graph, CATALOG, NONE, []);
  assert.deepEqual(
    edges.map((edge) => [edge.id, edge.source, edge.target]),
    [
      ["e:$r1", "n:make", "r:r1"],
      ["e:make.model", "n:load", "n:make"],
      ["e:draw.latents", "r:r1", "n:draw"],
    ],
  );
  assert.equal(endName("r:r1", "out"), "$r1");
  assert.deepEqual(graph.nodes.draw?.inputs.latents, { from: "make.latents" });
});

test("a link to a node that is not there draws no wire", () => {
  const graph = toy({ lost: { type: "Draw", inputs: { latents: { from: "gone.latents" } } } });
  assert.equal(
    flowEdges(graph, CATALOG, NONE, []).some((edge) => edge.id === "e:lost.latents"),
    false,
  );
});

test("a node shows its wires, then its fields, and folds what is advanced until it is used", () => {
  const graph = toy();
  const load = graph.nodes.load!;
  const folded = nodeView(load, CATALOG.nodes[0], { used: "", isAdvancedOpen: false });
  assert.deepEqual([folded.fields.length, folded.advanced.length, folded.numFolded], [1, 0, 1]);
  const linked = connect(graph, "draw.latents", "load.device").nodes.load!;
  const shown = nodeView(linked, CATALOG.nodes[0], { used: "model", isAdvancedOpen: false });
  assert.deepEqual([shown.advanced[0]?.spec.name, shown.numFolded, shown.outputs[0]?.isLinked], ["device", 0, true]);
  assert.notEqual(shown.shape, folded.shape);
});

test("a node of an unknown type shows the sockets that the file uses", () => {
  const graph = toy({
    odd: { type: "NotHere", inputs: { a: 1, b: { from: "make.latents" } } },
    user: { type: "Draw", inputs: { latents: { from: "odd.out" } } },
  });
  const view = nodeView(graph.nodes.odd!, undefined, { used: usedOutputs(graph, "odd"), isAdvancedOpen: false });
  assert.deepEqual(
    view.sockets.map((socket) => [socket.spec.name, socket.isKnown]),
    [
      ["a", false],
      ["b", false],
    ],
  );
  assert.deepEqual(
    view.outputs.map((output) => output.spec.name),
    ["out"],
  );
});

test("several nodes share the inputs of one name and type, and say where their values differ", () => {
  const shared = commonInputs(toy(), CATALOG, ["make", "draw"]);
  assert.deepEqual(
    shared.map(({ spec: { name }, isMixed, value }) => [name, isMixed, value]),
    [["seed", true, undefined]],
  );
  const same = commonInputs(setInput(toy(), "draw", "seed", 7), CATALOG, ["make", "draw"]);
  assert.deepEqual([same[0]?.isMixed, same[0]?.value], [false, 7]);
  assert.deepEqual(commonInputs(toy(), CATALOG, ["load", "make"]), []);
});

test("search puts beginnings before words before scattered letters", () => {
  const items = ["Upscale Latents", "Load Model", "Empty Latents", "Latent Mask"].map((label) => ({ label, more: "" }));
  assert.deepEqual(
    found(items, "lat").map((item) => item.label),
    ["Latent Mask", "Upscale Latents", "Empty Latents"],
  );
  assert.deepEqual(
    found(items, "lmd").map((item) => item.label),
    ["Load Model"],
  );
  assert.deepEqual(found(items, "zzz"), []);
});

test("types that are not known have a look of their own, always the same", () => {
  assert.deepEqual(lookOf("Mask"), lookOf("Mask"));
  assert.notDeepEqual(lookOf("Model"), lookOf("Latents"));
});

test("problems are found by node and by socket", () => {
  const told = { node: "a", code: "c", mends: [], inside: "" };
  const problems: Problem[] = [
    { ...told, socket: "x", message: "one", kind: "estimate" },
    { ...told, socket: "", message: "two", kind: "error" },
  ];
  assert.equal(problemsOf(problems, "a", null), "Estimate: one\ntwo");
  assert.equal(problemsOf(problems, "a", "x"), "Estimate: one");
  assert.deepEqual([worstOf(problems, "a"), worstOf(problems, "b")], ["error", ""]);
  assert.equal(problemsOf(problems, "b", null), "");
});

test("nodes that are out of sight keep their objects while another one changes", () => {
  const many = Array.from({ length: MANY + 1 }, (_, index) => [`m${index}`, { type: "Make" }] as const);
  const graph = toy(Object.fromEntries(many));
  const first = flowNodes(graph, CATALOG, NONE, STILL, []);
  const second = flowNodes(setInput(graph, "m3", "seed", 1), CATALOG, NONE, STILL, first);
  assert.equal(second.filter((node, index) => node !== first[index]).length, 1);
});
