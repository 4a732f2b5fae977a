import assert from "node:assert/strict";
import { test } from "node:test";
import { addBehind, addWord, addReroute, connect } from "../src/graph/edits";
import { hasWord, promptText, withWord } from "../src/graph/edits/triggers";
import { emptyGraph } from "../src/graph/file/workflowFile";
import { loraSockets, modelBehind, promptsOf } from "../src/graph/loras";
import { fitTable } from "../src/models/fits";
import { loraFacts } from "../src/models/loraFacts";
import type { Catalog, EditorGraph, EditorNode, InputValue, LoraEntry, PlanChoice, Problem } from "../src/types";
import { modelAt } from "../src/panels/problems/GetMissing";
import { loraOptions } from "../src/widgets/loras/loraOptions";
import { usualOf } from "../src/widgets/numbers/numberRange";
import { input, spec } from "./graphs";

const CATALOG: Catalog = {
  version: "loras",
  types: ["Model", "Conditioning", "string", "float"],
  nodes: [
    spec("Load", [input("source", "string", { widget: "model", default: "toy" }), input("revision", "string")], {
      model: "Model",
    }),
    spec(
      "Lora",
      [
        input("model", "Model", { required: true }),
        input("path", "string", { widget: "lora", required: true }),
        input("scale", "float", { widget: "strength", default: 1, min: -10, max: 10 }),
      ],
      { model: "Model" },
    ),
    spec("Encode", [input("model", "Model"), input("prompt", "string", { widget: "multiline" })], {
      conditioning: "Conditioning",
    }),
    spec("Work", [input("model", "Model"), input("steps", "int")], { latents: "Latents" }),
    spec("Text", [input("text", "string", { widget: "multiline" })], { text: "string" }),
  ],
};
const LORA = CATALOG.nodes[1]!;

function graphOf(nodes: Record<string, [type: string, inputs: Record<string, InputValue>]>): EditorGraph {
  const made = Object.entries(nodes).map(([name, [type, inputs]], index): [string, EditorNode] => [
    name,
    { type, version: 1, title: "", mode: "run", inputs, at: [300 * index, 0] },
  ]);
  return { ...emptyGraph("loras"), nodes: Object.fromEntries(made) };
}

/** load -> lora -> (encode, work) */
const GRAPH = graphOf({
  load: ["Load", { source: "org/name", revision: "v2" }],
  lora: ["Lora", { model: { from: "load.model" }, path: "a.safetensors" }],
  encode: ["Encode", { model: { from: "lora.model" }, prompt: "a cup" }],
  work: ["Work", { model: { from: "lora.model" } }],
});

test("the model that a problem is about is that of its node, with its revision", () => {
  const problem: Problem = {
    node: "load",
    socket: "source",
    code: "",
    message: "",
    kind: "error",
    mends: [],
    inside: "",
  };
  assert.deepEqual(modelAt(GRAPH, CATALOG, problem), { source: "org/name", revision: "v2" });
  const at = (source: string) => graphOf({ load: ["Load", { source, revision: "v2" }] });
  assert.deepEqual(modelAt(at(" org/name "), CATALOG, problem), { source: "org/name", revision: "v2" });
  assert.equal(modelAt(at("models/flux/dev"), CATALOG, problem).source, "", "a folder is none of the hub");
  for (const other of [
    { socket: "revision" },
    { node: "lora", socket: "model" },
    { node: "gone" },
    { kind: "unknown" },
  ])
    assert.equal(modelAt(GRAPH, CATALOG, { ...problem, ...other } as Problem).source, "");
});

test("a node that puts a LoRA on a model is known by its sockets", () => {
  assert.deepEqual(loraSockets(LORA), { path: "path", model: "model", gives: "model" });
  assert.equal(loraSockets(CATALOG.nodes[0]), null);
  assert.equal(loraSockets(undefined), null);
});

test("the model at the beginning of a chain is found, where it is written there", () => {
  const two = addBehind(GRAPH, { node: "lora", spec: LORA, name: "more", at: [0, 0], takes: "model", gives: "model" });
  assert.deepEqual(modelBehind(two, CATALOG, "more"), { source: "org/name", revision: "v2" });
  const usual = graphOf({ load: ["Load", {}], lora: ["Lora", { model: { from: "load.model" } }] });
  assert.deepEqual(modelBehind(usual, CATALOG, "lora"), { source: "toy", revision: "" });
  const asParam = { ...GRAPH, params: { source: { type: "string" as const, default: "x/y" } } };
  asParam.nodes = { ...GRAPH.nodes, load: { ...GRAPH.nodes.load!, inputs: { source: { param: "source" } } } };
  assert.deepEqual(modelBehind(asParam, CATALOG, "lora"), { source: "x/y", revision: "" });
  const wired = graphOf({ load: ["Load", { source: { from: "text.text" } }], text: ["Text", {}] });
  const ring = graphOf({ a: ["Lora", { model: { from: "b.model" } }], b: ["Lora", { model: { from: "a.model" } }] });
  for (const [graph, name] of [
    [wired, "load"],
    [ring, "a"],
    [graphOf({ a: ["Lora", {}] }), "a"],
    [GRAPH, "gone"],
  ] as const)
    assert.equal(modelBehind(graph, CATALOG, name)?.source ?? null, null);
});

test("the prompts are those that the model reaches, else those of the model without the LoRA", () => {
  assert.deepEqual(promptsOf(GRAPH, CATALOG, "lora"), ["encode.prompt"]);
  const beside = connect(GRAPH, "load.model", "encode.model");
  assert.deepEqual(promptsOf(beside, CATALOG, "lora"), ["encode.prompt"]);
  assert.deepEqual(promptsOf(graphOf({ lora: ["Lora", {}] }), CATALOG, "lora"), []);
});

test("a word goes to the end of a prompt, once", () => {
  assert.equal(withWord("a cup", "glz"), "a cup, glz");
  assert.equal(withWord(" a cup, \n", "glz"), " a cup, glz");
  assert.equal(withWord("", "glz"), "glz");
  assert.equal(withWord("a GLZ cup", "glz"), "a GLZ cup");
});

test("a word is in a prompt only as a whole", () => {
  assert.ok(hasWord("a (glz:1.2) cup", "glz") && hasWord("blue glaze, cup", "Blue Glaze") && hasWord("x", ""));
  assert.ok(!hasWord("glzing", "glz") && !hasWord("aglz", "glz") && hasWord("glzing, glz", "glz"));
  assert.ok(hasWord("<b>x</b>", "<b>") && !hasWord("größe", "groß".toUpperCase()) && !hasWord("", "glz"));
});

test("a word goes into values and params, and not where a wire or a list brings the text", () => {
  const one = addWord(GRAPH, ["encode.prompt"], "glz");
  assert.equal(one.nodes.encode!.inputs.prompt, "a cup, glz");
  assert.equal(addWord(one, ["encode.prompt"], "glz"), one);
  const param = {
    ...graphOf({ encode: ["Encode", { prompt: { param: "text" } }] }),
    params: { text: { type: "string" as const, default: "a" } },
  };
  assert.equal(addWord(param, ["encode.prompt"], "glz").params.text!.default, "a, glz");
  assert.equal(promptText(param, "encode.prompt", true), "a");
  assert.equal(promptText(GRAPH, "encode.prompt", true), null);
  const wired = graphOf({ encode: ["Encode", { prompt: { from: "text.text" } }], text: ["Text", {}] });
  assert.equal(addWord(wired, ["encode.prompt", "gone.prompt"], "glz"), wired);
});

test("another LoRA comes behind the first, on the way to all that took its model", () => {
  const before = addReroute(
    { ...GRAPH, outputs: { model: { from: "lora.model" } } },
    { id: "r1", input: "work.model", at: [0, 0] },
  );
  const made = {
    node: "lora",
    spec: LORA,
    name: "more",
    at: [5, 6] as [number, number],
    takes: "model",
    gives: "model",
  };
  const after = addBehind(before, made);
  assert.deepEqual(after.nodes.more, {
    type: "Lora",
    version: 1,
    title: "",
    mode: "run",
    inputs: { model: { from: "lora.model" } },
    at: [5, 6],
  });
  assert.deepEqual(after.nodes.lora, before.nodes.lora);
  for (const name of ["encode", "work"]) assert.deepEqual(after.nodes[name]!.inputs.model, { from: "more.model" });
  assert.deepEqual([after.outputs.model, after.reroutes.r1!.from], [{ from: "more.model" }, "more.model"]);
  assert.equal(addBehind(before, { ...made, name: "work" }), before);
  assert.equal(addBehind(before, { ...made, node: "gone" }), before);
});

const ENTRY: LoraEntry = {
  id: "1",
  path: "/m/glaze.safetensors",
  name: "glaze",
  folder: "",
  bytes: 2048,
  rank: 8,
  made_for: "flux-1-dev",
  triggers: ["glz", "cup"],
  title: "Glaze",
  author: "",
  licence: "",
  has_picture: true,
  verdict: "fits",
  why: "",
};

test("the picker tells size, rank, model and words, and greys what does not fit", () => {
  assert.equal(loraFacts(ENTRY), "fits · glaze · 2 KiB · rank 8 · flux-1-dev · glz, cup");
  const other: LoraEntry = { ...ENTRY, path: "/m/b", title: "", rank: 0, verdict: "other", why: "it is wide" };
  const options = loraOptions([ENTRY, other], ["/m/b", "own.safetensors"], (id) => `thumb ${id}`);
  assert.deepEqual(
    options.map(({ value, label, problem, isOff, picture }) => [value, label, problem, isOff, picture]),
    [
      ["/m/glaze.safetensors", "Glaze", undefined, undefined, "thumb 1"],
      ["/m/b", "glaze", "Does not fit: it is wide", true, "thumb 1"],
      ["own.safetensors", undefined, undefined, undefined, undefined],
    ],
  );
});

test("a strength slides from -2 to 2, and as far as its value", () => {
  const range = { type: "float", min: -10, max: 10, step: 0.05 };
  assert.deepEqual(usualOf(range, 1), { ...range, min: -2, max: 2 });
  assert.deepEqual(usualOf(range, 3.5), { ...range, min: -2, max: 3.5 });
  assert.deepEqual(usualOf({ ...range, min: 0, max: 1 }, 0.5), { ...range, min: 0, max: 1 });
});

test("of each set of devices the plan is told that fits and needs least", () => {
  const plan = (name: string, devices: string, bytes: number, fits: boolean | null, problem = ""): PlanChoice => ({
    plan: name,
    devices,
    num_ranks: devices.split(",").length,
    fits,
    bytes_per_device: bytes,
    problem,
  });
  const plans = [
    plan("one", "cuda:0", 90, false),
    plan("cfg=2", "cuda:0,cuda:1", 70, true),
    plan("weights=2", "cuda:0,cuda:1", 40, true),
    plan("none", "cuda:0,cuda:1", 10, false, "it cannot be"),
  ];
  const less = [plan("one", "cuda:0", 50, true), plan("cfg=2", "cuda:0,cuda:1", 5, false, "it cannot be")];
  const { columns, rows } = fitTable(plans, [{ quantization: "int8", plans: less }]);
  assert.deepEqual(columns, ["none", "int8"]);
  assert.deepEqual(
    rows.map(({ devices, cells }) => [devices, ...cells.map((cell) => cell && [cell.plan, cell.bytes_per_device])]),
    [
      ["cuda:0", ["one", 90], ["one", 50]],
      ["cuda:0,cuda:1", ["weights=2", 40], null],
    ],
  );
});
