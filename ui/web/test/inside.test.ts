import assert from "node:assert/strict";
import { test } from "node:test";
import { nodeSpec } from "../src/graph/catalog";
import { describe, exposeParam, fold, hideParam, removeItems, renameParam, setInput, unfold } from "../src/graph/edits";
import { setEach } from "../src/graph/edits/each";
import { fromFile, toFile } from "../src/graph/file/workflowFile";
import { contains, insideOf, keyAt, pathIn, usersOfSub, withInside, withoutLost } from "../src/graph/inside";
import { stateIn } from "../src/graph/subs";
import { edit, editorStore, enter, goInside, load, redo, undo } from "../src/store/editor";
import { toldHere } from "../src/store/told";
import type { EditorGraph, NodeState, Problem } from "../src/types";
import { input, TOYS, toyGraph } from "./graphs";

/** load -> part (first -> second), and another node that uses the same sub-workflow, gone through by a list. */
function twice(): EditorGraph {
  const steps = input("steps", "int", { default: 4 });
  const graph = exposeParam(toyGraph(), "second", {
    spec: steps,
    name: "steps",
  });
  const folded = fold(graph, TOYS, ["first", "second"], "Both")!.graph;
  const again = {
    ...folded.nodes.part!,
    inputs: { model: { from: "load.model" } },
  };
  const last = {
    type: "Work",
    version: 1,
    title: "",
    mode: "run" as const,
    at: [0, 0] as [number, number],
  };
  return setEach(
    {
      ...folded,
      nodes: {
        ...folded.nodes,
        again,
        last: { ...last, inputs: { latents: { from: "again.latents" } } },
      },
    },
    "again",
    "steps",
    [1, 2],
  );
}

const inner = (graph: EditorGraph) => insideOf(graph, ["part"])!;

test("the inside of a node is a graph of its own, and what is edited there is the definition", () => {
  const whole = twice();
  assert.equal(keyAt(whole, ["part"]), "part");
  assert.deepEqual(Object.keys(inner(whole).nodes), ["first", "second"]);
  assert.deepEqual(inner(whole).nodes.first!.inputs, {
    model: { param: "model" },
  });
  assert.equal(inner(whole), inner(whole));
  const changed = withInside(whole, ["part"], setInput(inner(whole), "first", "strength", 0.5));
  assert.equal(changed.subs.part!.nodes.first!.inputs!.strength, 0.5);
  assert.equal(insideOf(changed, ["again"])!.nodes.first!.inputs.strength, 0.5);
  assert.equal(inner(changed).nodes.second, inner(whole).nodes.second); // what did not change keeps its object
  assert.deepEqual(toFile(fromFile(toFile(changed))), toFile(changed));
  assert.equal(withInside(whole, ["part"], inner(whole)), whole);
  assert.equal(usersOfSub(whole, "part"), 2);
  assert.equal(insideOf(whole, ["load"]), null);
  assert.deepEqual(pathIn(whole, ["part", "first"]), ["part"]);
});

test("whoever uses a sub-workflow follows the names of its inputs and outputs, lists and wires too", () => {
  const whole = twice();
  const renamed = withInside(whole, ["part"], renameParam(inner(whole), "steps", "count"));
  assert.deepEqual(Object.keys(renamed.nodes.part!.inputs), ["model", "count"]);
  assert.deepEqual(renamed.nodes.again!.each, { count: [1, 2] });
  const { latents } = inner(whole).outputs;
  const moved = withInside(whole, ["again"], {
    ...inner(whole),
    outputs: { picture: latents! },
  });
  assert.deepEqual(moved.nodes.last!.inputs, {
    latents: { from: "again.picture" },
  });
  assert.deepEqual(moved.outputs, { result: { from: "part.picture" } });
  const hidden = withInside(whole, ["part"], hideParam(inner(whole), "steps"));
  assert.deepEqual([Object.keys(hidden.nodes.part!.inputs), hidden.nodes.again!.each], [["model"], {}]);
  const titled = withInside(whole, ["part"], describe(inner(whole), { name: "Pair", description: "Two" }));
  assert.deepEqual([titled.subs.part!.title, titled.subs.part!.help], ["Pair", "Two"]);
});

test("a wire's socket becomes an input of the sub-workflow, and of the node that uses it", () => {
  const whole = twice();
  const spec = input("latents", "Latents");
  const graph = exposeParam(inner(whole), "first", {
    spec,
    name: "latents",
    isInside: true,
  });
  const next = withInside(whole, ["part"], graph);
  assert.equal(next.subs.part!.params!.latents!.type, "Latents");
  assert.ok(nodeSpec(next, TOYS, "part")!.inputs.some(({ name, type }) => name === "latents" && type === "Latents"));
});

test("what is folded and unfolded inside stays inside, and nobody else's sub-workflow is lost", () => {
  const whole = twice();
  const deep = withInside(whole, ["part"], fold(inner(whole), TOYS, ["first"], "One")!.graph);
  assert.deepEqual(Object.keys(deep.subs), ["part", "part_2"]);
  const [name = ""] = Object.keys(inner(deep).nodes).filter((each) => each !== "second");
  assert.deepEqual(Object.keys(insideOf(deep, ["part", name])!.nodes), ["first"]);
  assert.ok(contains(deep.subs, "part", "part_2") && !contains(deep.subs, "part_2", "part"));
  const flat = withInside(deep, ["part"], unfold(inner(deep), name)!.graph);
  assert.deepEqual(Object.keys(withoutLost(deep, flat).subs), ["part"]);
});

test("the last user takes the definition along, undo brings it back, and goes to where the edit was made", () => {
  load(twice(), null);
  enter("part");
  edit("value", (graph) => setInput(graph, "first", "strength", 0.5));
  goInside([]);
  edit("remove", (graph) => removeItems(graph, ["n:part"]));
  assert.deepEqual(Object.keys(editorStore.getState().whole.subs), ["part"]);
  edit("remove", (graph) => removeItems(graph, ["n:again"]));
  assert.deepEqual(editorStore.getState().whole.subs, {});
  undo();
  assert.deepEqual(Object.keys(editorStore.getState().whole.subs), ["part"]);
  undo();
  undo();
  assert.deepEqual(editorStore.getState().inside, ["part"]);
  assert.equal(editorStore.getState().graph.nodes.first!.inputs.strength, undefined);
  redo();
  redo();
  assert.deepEqual([editorStore.getState().inside, editorStore.getState().isDirty], [[], true]);
  assert.equal(editorStore.getState().graph, editorStore.getState().whole);
});

test("inside are the problems, meanings and states of what lies there", () => {
  const problem = (inside: string): Problem => ({
    node: "paint",
    socket: "",
    code: "",
    message: inside,
    kind: "error",
    mends: [],
    inside,
  });
  const told = toldHere({
    inside: ["paint"],
    problems: [problem("paint/2/denoise.steps"), problem("paint/deep/1/text"), problem(""), problem("other/x.y")],
    meant: {
      "paint/1/denoise": { steps: 16 },
      "paint/2/denoise": { steps: 8 },
      paint: {},
    },
    sizes: {},
    tokens: {},
  });
  assert.deepEqual(
    told.problems.map(({ node, socket }) => [node, socket]),
    [
      ["denoise", "steps"],
      ["deep", ""],
    ],
  );
  assert.deepEqual(told.meant, { denoise: { steps: 16 } });
  const state = (state: NodeState["state"], message = "") =>
    ({
      state,
      files: [],
      sounds: [],
      seconds: 1,
      preview: 0,
      message,
      done: 3,
      total: 4,
    }) as unknown as NodeState;
  const nodes = {
    "paint/1/denoise": state("done"),
    "paint/2/denoise": state("failed", "too large"),
  };
  assert.deepEqual([stateIn(nodes, "paint/denoise")!.state, stateIn(nodes, "paint/denoise")!.done], ["failed", 1]);
  assert.equal(stateIn(nodes, "paint/denoise")!.message, "too large");
  assert.equal(stateIn(nodes, "paint")!.message, "paint/2/denoise: too large");
});
