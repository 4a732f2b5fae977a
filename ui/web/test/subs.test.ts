import assert from "node:assert/strict";
import { test } from "node:test";
import { nodeSpec, titleOf } from "../src/graph/catalog";
import { exposeParam, fold, hideParam, renameParam, setEach, setInput, unfold } from "../src/graph/edits";
import { listFrom, shownList } from "../src/graph/edits/each";
import { copy, paste } from "../src/graph/file/clip";
import { emptyGraph, fromFile, toFile } from "../src/graph/file/workflowFile";
import { shownIn, stateIn, typeIn } from "../src/graph/subs";
import type { EditorGraph, NodeState } from "../src/types";
import { input, TOYS, toyGraph } from "./graphs";

function folded(): EditorGraph {
  const steps = input("steps", "int", { default: 4 });
  const graph = exposeParam(toyGraph(), "second", { spec: steps, name: "steps" });
  return fold(graph, TOYS, ["first", "second"], "Both")!.graph;
}

test("folded nodes are one, whose sockets are the wires and params that cross, each once", () => {
  const graph = folded();
  assert.deepEqual(Object.keys(graph.nodes), ["load", "whole", "pick", "part"]);
  assert.deepEqual(graph.nodes.part!.inputs, { model: { from: "load.model" }, steps: { param: "steps" } });
  assert.deepEqual(graph.outputs, { result: { from: "part.latents" } });
  const spec = nodeSpec(graph, TOYS, "part")!;
  assert.deepEqual(
    spec.inputs.map(({ name, type, required }) => [name, type, required]),
    [
      ["model", "Model", true],
      ["steps", "int", false],
    ],
  );
  assert.deepEqual(spec.outputs, [{ name: "latents", type: "Latents", help: "" }]);
  assert.equal(titleOf(graph, TOYS, "part"), "Both");
  assert.equal(fold(graph, TOYS, []), null);
});

test("unfolding gives the nodes back, in their places, and takes the sub-workflow out of the file", () => {
  const before = exposeParam(toyGraph(), "second", { spec: input("steps", "int"), name: "steps" });
  const { graph, names } = unfold(folded(), "part")!;
  assert.deepEqual(names, ["first", "second"]);
  assert.deepEqual(graph.nodes, before.nodes);
  assert.deepEqual([graph.outputs, graph.subs], [before.outputs, {}]);
});

test("a folded part folds again with others, and unfolds level by level", () => {
  const twice = fold(folded(), TOYS, ["load", "part"])!;
  assert.deepEqual(Object.keys(twice.graph.subs), ["part", "part_2"]);
  assert.deepEqual(
    nodeSpec(twice.graph, TOYS, twice.name)!.inputs.map(({ name }) => name),
    ["steps"],
  );
  const { graph } = unfold(twice.graph, twice.name)!;
  assert.deepEqual(Object.keys(graph.subs), ["part"]);
  assert.deepEqual(unfold(graph, "part")!.graph.nodes.first!.inputs, { model: { from: "load.model" } });
});

test("the file keeps sub-workflows and lists under format 2, and one without them stays format 1", () => {
  const graph = setEach(folded(), "part", "steps", [1, 2]);
  const file = toFile(graph);
  assert.equal(file.format, 2);
  assert.deepEqual(file.nodes.part!.each, { steps: [1, 2] });
  assert.deepEqual(file.nodes.part!.inputs, { model: { from: "load.model" } });
  assert.deepEqual(toFile(fromFile(file)), file);
  assert.equal(unfold(graph, "part"), null);
  assert.equal(toFile(toyGraph()).format, 1);
  assert.deepEqual(setEach(graph, "part", "steps", null).nodes.part!.each, undefined);
});

test("a param's new name reaches the lists, and a value that is written takes the list away", () => {
  const words = { ...toyGraph(), params: { words: { type: "list[string]" as const, default: ["a"] } } };
  const graph = renameParam(setEach(words, "first", "name", { param: "words" }), "words", "texts");
  assert.deepEqual(graph.nodes.first!.each, { name: { param: "texts" } });
  assert.deepEqual(hideParam(graph, "texts").nodes.first!.each, { name: ["a"] });
  assert.deepEqual(setInput(graph, "first", "name", "x").nodes.first!.each, undefined);
});

test("a copied part takes its sub-workflow along, under a fresh name where another has that", () => {
  const clip = copy(folded(), ["n:part"])!;
  const other = paste(emptyGraph("other"), clip, [0, 0]).graph;
  assert.deepEqual(Object.keys(other.subs), ["part"]);
  const taken = { ...emptyGraph("other"), subs: { part: { nodes: { n: { type: "Whole" } } } } };
  const beside = paste(taken, clip, [0, 0]).graph;
  assert.deepEqual(Object.keys(beside.subs), ["part", "part_2"]);
  assert.equal(beside.nodes.part!.type, "sub:part_2");
  assert.deepEqual(Object.keys(paste(folded(), clip, [0, 0]).graph.subs), ["part"]);
});

test("lists are written as text and back", () => {
  assert.deepEqual(listFrom("lines", "a\nb", "string"), { lines: "a\nb" });
  assert.deepEqual(listFrom("lines", "1\n2.5", "float"), [1, 2.5]);
  assert.equal(listFrom("lines", "one", "int"), null);
  assert.deepEqual(listFrom("range", "1..8", "int"), { range: [1, 8] });
  assert.equal(listFrom("range", "1", "int"), null);
  assert.deepEqual(shownList({ range: [0, 1, 0.5] }), { kind: "range", text: "0..1..0.5" });
  assert.deepEqual(shownList({ lines: { param: "text" } }), { kind: "param", text: "text" });
  assert.deepEqual(shownList(["a", "b"]), { kind: "lines", text: "a\nb" });
});

test("nodes of a run tell of the node that they were unfolded from", () => {
  const state = (state: NodeState["state"], more: Partial<NodeState> = {}) =>
    ({ state, files: [], sounds: [], seconds: 1, preview: 0, message: "", ...more }) as unknown as NodeState;
  const nodes = {
    "part/1/first": state("done", { files: ["a"] }),
    "part/2/first": state("running", { preview: 3 }),
    "part/2/second": state("waiting"),
    parting: state("failed"),
  };
  const sum = stateIn(nodes, "part")!;
  assert.deepEqual([sum.state, sum.done, sum.total, sum.files, sum.preview], ["running", 1, 3, ["a"], 3]);
  assert.equal(stateIn(nodes, "part"), sum);
  assert.equal(stateIn(nodes, "other"), null);
  assert.equal(shownIn(nodes, "part"), "part/2/first");
  const failed = stateIn({ ...nodes, "part/2/second": state("failed", { message: "it broke" }) }, "part")!;
  assert.deepEqual([failed.state, failed.message], ["failed", "part/2/second: it broke"]);
  assert.equal(typeIn(folded(), "part/2/second"), "Work");
  assert.equal(titleOf(folded(), TOYS, "part/2/second"), "Both 2 / second");
});
