import assert from "node:assert/strict";
import { test } from "node:test";
import { fromFile, toFile } from "../src/graph/file/workflowFile";
import { choiceOf, offersOf } from "../src/simple/canvasChoice";
import { fieldsOf, groupsOf, missing, seedsOf, startValues, withDefaults } from "../src/simple/formFields";
import { failureOf, previewOf, progressOf, runningNode } from "../src/simple/runProgress";
import { linesOf } from "../src/widgets/ListField";
import { underMaskOf } from "../src/simple/app/underMaskOf";
import type { Catalog, GraphFile, NodeState, Run } from "../src/types";
import { input, spec, toyGraph } from "./graphs";

const CATALOG: Catalog = {
  version: "1",
  types: [],
  nodes: [
    spec(
      "Denoise",
      [
        input("prompt", "string", { widget: "multiline" }),
        input("seed", "int", { widget: "seed", min: 0, max: 99 }),
        input("method", "choice", { choices: ["a", "b"] }),
        input("guidance", "float", { min: 0, max: 9, step: 0.5, help: "How strongly" }),
      ],
      {},
    ),
  ],
};
const GRAPH: GraphFile = {
  format: 1,
  name: "w",
  params: {
    prompt: { type: "string", default: "a star", help: "Own words" },
    seed: { type: "int", default: 7, min: 0 },
    method: { type: "string", default: "a" },
    guidance: { type: "float", default: 1 },
    loose: { type: "bool" },
  },
  nodes: {
    one: {
      type: "Denoise",
      inputs: {
        prompt: { param: "prompt" },
        seed: { param: "seed" },
        method: { param: "method" },
        guidance: { param: "guidance" },
      },
    },
    two: { type: "Denoise", inputs: {} },
    save: { type: "Save", inputs: {} },
  },
};

test("fields are drawn like the sockets that their params feed", () => {
  const fields = fieldsOf(GRAPH, CATALOG);
  assert.deepEqual(
    fields.map(({ name, type, widget }) => [name, type, widget]),
    [
      ["prompt", "string", "multiline"],
      ["seed", "int", "seed"],
      ["method", "choice", ""],
      ["guidance", "float", ""],
      ["loose", "bool", ""],
    ],
  );
  assert.deepEqual(fields[2]?.choices, ["a", "b"]);
  assert.deepEqual([fields[3]?.max, fields[3]?.step, fields[3]?.help], [9, 0.5, "How strongly"]);
  assert.equal(fields[0]?.help, "Own words");
  assert.deepEqual(
    seedsOf(fields).map(({ name }) => name),
    ["seed"],
  );
});

test("a list has a line for each element, is remembered, and a prompt of a sub-workflow is drawn like one", () => {
  const graph: GraphFile = {
    format: 2,
    name: "many",
    params: { words: { type: "list[string]", default: ["a"] }, text: { type: "string", default: "b" } },
    nodes: { one: { type: "sub:part", inputs: { said: { param: "text" } }, each: { seed: { param: "words" } } } },
    subs: {
      part: {
        params: { said: { type: "string" } },
        nodes: { d: { type: "Denoise", inputs: { prompt: { param: "said" } } } },
      },
    },
  };
  const fields = fieldsOf(graph, CATALOG);
  assert.deepEqual(
    fields.map(({ type, widget }) => [type, widget]),
    [
      ["list[string]", ""],
      ["string", "multiline"],
    ],
  );
  assert.deepEqual(startValues(fields, { words: ["x", "y"] }), { words: ["x", "y"], text: "b" });
  assert.deepEqual(startValues(fields, { words: "x" }), { words: ["a"], text: "b" });
  assert.deepEqual(withDefaults(graph, { words: ["x"] }).params!.words!.default, ["x"]);
  assert.deepEqual(linesOf("1\n\n2.5\nx", { type: "list[float]" }), [1, 2.5, "x"]);
  assert.deepEqual(linesOf("a\n\nb", { type: "list[string]" }), ["a", "b"]);
});

test("a form starts with what is remembered, unless the param would not take it", () => {
  const fields = fieldsOf(GRAPH, CATALOG);
  const values = startValues(fields, { prompt: "mine", seed: "x", method: "gone", guidance: 2, other: 1 });
  assert.deepEqual(values, { prompt: "mine", seed: 7, method: "a", guidance: 2 });
  assert.deepEqual(missing(fields, values), ["loose"]);
  assert.deepEqual(missing(fields, { ...values, loose: false }), []);
});

test("the values of a form become the workflow's defaults", () => {
  const { params } = withDefaults(GRAPH, { prompt: "mine", seed: null });
  assert.equal(params?.prompt?.default, "mine");
  assert.equal(params?.seed?.default, 7);
});

const NODE: NodeState = {
  state: "waiting",
  started: 0,
  done: 0,
  total: 0,
  seconds: 0,
  left_s: null,
  run_left_s: null,
  left_at: 0,
  phase: "",
  message: "",
  code: "",
  cached: "",
  preview: 0,
  plan: "",
  ranks: [],
  foreseen: null,
  took: null,
  outlook: "",
  files: [],
  sounds: [],
};

const UNTOLD = { elapsed: 10, left: null };

function running(nodes: Record<string, Partial<NodeState>>): Run {
  const all = Object.entries(nodes).map(([name, state]) => [name, { ...NODE, ...state }]);
  return { state: "running", error: "", nodes: Object.fromEntries(all) } as Run;
}

test("progress is unknown until a node tells its steps", () => {
  assert.deepEqual(progressOf(running({ one: { state: "running" }, save: {} }), GRAPH, UNTOLD), {
    part: null,
    left_s: null,
  });
});

test("a node that waits counts as many steps as another of its type", () => {
  const run = running({ one: { state: "running", done: 5, total: 10, left_s: 10 }, two: {}, save: {} });
  assert.deepEqual(progressOf(run, GRAPH, UNTOLD), { part: 5 / 21, left_s: 30 });
});

test("what the server predicts goes before", () => {
  const run = running({ one: { state: "running", done: 9, total: 10, left_s: 1 }, save: {} });
  assert.deepEqual(progressOf(run, GRAPH, { elapsed: 20, left: 40 }), { part: 1 / 3, left_s: 40 });
});

test("cached nodes count as done", () => {
  const run = running({ one: { state: "cached" }, two: { state: "running", done: 10, total: 10 }, save: {} });
  assert.deepEqual(progressOf(run, GRAPH, UNTOLD), { part: 20 / 21, left_s: null });
});

test("the running node with steps is shown, and its preview", () => {
  const run = running({
    one: { state: "done", preview: 9 },
    load: { state: "running" },
    two: { state: "running", total: 4, preview: 2 },
  });
  assert.equal(runningNode(run)?.[0], "two");
  assert.deepEqual(previewOf(run), { node: "two", number: 2 });
  assert.equal(previewOf(running({ one: {} })), null);
});

test("a failure is told by the node that failed", () => {
  assert.equal(failureOf(running({ one: { state: "failed", message: "no room" } })), "no room");
  assert.equal(failureOf(running({ one: {} })), "");
});

test("the canvas offers its prompts first, then its seeds, but nothing that is linked, a param or advanced", () => {
  const text = input("prompt", "string", { widget: "multiline" });
  const seed = input("seed", "int", { widget: "seed" });
  const rare = input("rare", "string", { widget: "multiline", advanced: true });
  const catalog: Catalog = { version: "", types: [], nodes: [spec("Paint", [seed, rare, text], { text: "string" })] };
  const graph = fromFile({
    format: 1,
    name: "hand-built",
    params: { words: { type: "string", default: "x" } },
    nodes: {
      one: { type: "Paint" },
      two: { type: "Paint", inputs: { prompt: { param: "words" }, seed: 4 } },
      three: { type: "Paint", inputs: { prompt: { from: "one.text" }, seed: { from: "one.text" } } },
      gone: { type: "NotInstalled" },
    },
  });
  assert.deepEqual(
    offersOf(graph, catalog).map(({ node, spec: { name } }) => `${node}.${name}`),
    ["one.prompt", "one.seed", "two.seed"],
  );
});

test("what is on the canvas is a choice of its own, with the canvas's file", () => {
  const choice = choiceOf(toyGraph(), "d1");
  assert.deepEqual([choice.key, choice.name, choice.canvas], ["canvas:d1", "toy", toFile(toyGraph())]);
});

test("fields of a group stand under its heading, where its first one is; the others between as they come", () => {
  const group = (name: string, title: string) => ({ ...GRAPH.params![name]!, group: title });
  const params = { ...GRAPH.params, seed: group("seed", "Look"), guidance: group("guidance", "Look") };
  const graph: GraphFile = { ...GRAPH, params };
  const found = groupsOf(graph, fieldsOf(graph, CATALOG));
  assert.deepEqual(
    found.map(({ title, fields }) => [title, ...fields.map(({ name }) => name)]),
    [
      ["", "prompt"],
      ["Look", "seed", "guidance"],
      ["", "method", "loose"],
    ],
  );
});

test("an app's mask is read from the channel, and lies over the picture, that the server tells or a setting has", () => {
  const masks = {
    mask: { channel: { setting: "", value: "luminance" }, picture: { setting: "image", value: "" } },
    other: { channel: { setting: "how", value: "" }, picture: { setting: "", value: "middle.png" } },
  };
  const values = { image: "0123456789abcdef-eye.png", how: "red" };
  const first = { picture: "0123456789abcdef-eye.png", channel: "luminance" };
  assert.deepEqual(underMaskOf({ masks }, "$mask", values), first);
  assert.deepEqual(underMaskOf({ masks }, "$other", values), { picture: "middle.png", channel: "red" });
  assert.deepEqual(underMaskOf({ masks }, "$gone", values), { picture: "", channel: "alpha" });
});
