import assert from "node:assert/strict";
import { test } from "node:test";
import { inputsBehind, valuesBehind } from "../src/gallery/inputsBehind";
import { placesFor, recall, recallAll, recalledOf } from "../src/gallery/recall/places";
import { behind } from "../src/graph/behind";
import { differences } from "../src/graph/difference";
import { fromFile } from "../src/graph/file/workflowFile";
import type { Catalog, EditorGraph, GraphFile } from "../src/types";
import { TOYS } from "./graphs";

const input = (name: string, facts: object = {}) => ({
  name,
  type: "int",
  widget: "",
  default: 0,
  choices: [],
  ...facts,
});
const SIZE = [input("width"), input("height"), input("like", { type: "Image" })];
const CATALOG = {
  nodes: [
    { id: "Text", title: "Encode Text", chosen_by: [], inputs: [text("prompt"), text("negative_prompt")] },
    {
      ...{ id: "Denoise", title: "Denoise", chosen_by: [] },
      inputs: [input("seed", { widget: "seed" }), input("steps"), input("latents", { type: "Latents" })],
    },
    { id: "Empty", title: "Empty Latents", chosen_by: [], inputs: SIZE, outputs: [{ type: "Latents" }] },
    {
      ...{ id: "Resize", title: "Resize", chosen_by: [] },
      ...{ inputs: SIZE, outputs: [{ type: "Image" }] },
    },
    { id: "Note", title: "Text", chosen_by: [], inputs: [text("text")] },
  ],
} as unknown as Catalog;

function text(name: string) {
  return input(name, { type: "string", widget: "multiline", default: "" });
}

function workflow(nodes: object, params: object = {}): EditorGraph {
  return fromFile({ format: 1, name: "toy", nodes, params } as unknown as GraphFile);
}

const node = (type: string, inputs: object = {}) => ({ type, inputs });
const NODES = {
  text: node("Text", { prompt: { param: "prompt" } }),
  empty: node("Empty", { width: 128, height: 96 }),
  denoise: node("Denoise", {
    conditioning: { from: "text.conditioning" },
    latents: { from: "empty.latents" },
    seed: 7,
  }),
};
const PARAMS = { prompt: { type: "string", default: "a star" } };

test("values, wires, modes and nodes that only one has are told, and no more", () => {
  const before = workflow(NODES, PARAMS);
  const after = workflow(
    {
      ...NODES,
      denoise: node("Denoise", { ...NODES.denoise.inputs, latents: { from: "scaled.latents" }, steps: 5 }),
      scaled: node("Resize", { width: 256 }),
    },
    { prompt: { type: "string", default: "a ring" } },
  );
  delete after.nodes.empty;
  assert.deepEqual(differences({ graph: before }, { graph: after }, CATALOG), [
    { kind: "value", name: "text.prompt", a: "a star", b: "a ring", param: "prompt" },
    { kind: "wire", name: "denoise.latents", a: "empty.latents", b: "scaled.latents" },
    { kind: "value", name: "denoise.steps", a: "0", b: "5" },
    { kind: "removed", name: "empty", a: "Empty Latents", b: "" },
    { kind: "added", name: "scaled", a: "", b: "Resize" },
  ]);
  assert.deepEqual(differences({ graph: before }, { graph: before }, CATALOG), []);
});

test("what 0 was counts, not that it was written, and nodes of other names are the same by their likeness", () => {
  const given = { steps: 16, seed: 3 };
  const a = { graph: workflow({ one: node("Denoise", { steps: 0, seed: 3 }) }), meant: { one: { steps: 16 } } };
  const b = { graph: workflow({ two: node("Denoise", given), three: node("Denoise", { steps: 9, seed: 4 }) }) };
  assert.deepEqual(differences(a, b, CATALOG), [{ kind: "added", name: "three", a: "", b: "Denoise" }]);
  const muted = workflow({ two: { ...node("Denoise", given), mode: "mute" } });
  const rows = differences({ graph: b.graph, end: "two" }, { graph: muted, end: "two" }, CATALOG);
  assert.deepEqual(rows, [{ kind: "mode", name: "two", a: "run", b: "mute" }]);
});

test("a recalled value goes where the specs say, through a param too", () => {
  const graph = workflow({ ...NODES, resize: node("Resize", { width: 8, height: 8 }) }, PARAMS);
  const names = (kind: "prompt" | "seed" | "size") => placesFor(graph, CATALOG, kind).map((place) => place.node);
  assert.deepEqual([names("prompt"), names("seed"), names("size")], [["text"], ["denoise"], ["empty"]]);
  const value = { prompt: "a ring", seed: "18446744073709551615", size: { width: 64, height: 32 } };
  const changed = (["prompt", "seed", "size"] as const).reduce(
    (last, kind) => recall(last, kind, value, placesFor(last, CATALOG, kind)),
    graph,
  );
  assert.equal(changed.params.prompt?.default, "a ring");
  assert.equal(changed.nodes.denoise?.inputs.seed, "18446744073709551615");
  assert.deepEqual(changed.nodes.empty?.inputs, { width: 64, height: 32 });
  assert.deepEqual(changed.nodes.resize?.inputs, { width: 8, height: 8 });
});

test("a linked prompt is no place; the text that feeds it is", () => {
  const nodes = { note: node("Note", { text: "a star" }), text: node("Text", { prompt: { from: "note.text" } }) };
  const found = placesFor(workflow(nodes), CATALOG, "prompt");
  assert.deepEqual(found, [{ node: "note", title: "Text", sockets: ["text"] }]);
});

test("all values of a result are recalled node by node; wires and other nodes stay", () => {
  const canvas = workflow({ ...NODES, extra: node("Note", { text: "mine" }) }, PARAMS);
  const made = workflow({ ...NODES, denoise: node("Denoise", { ...NODES.denoise.inputs, seed: 9, steps: 4 }) }, PARAMS);
  const changed = recallAll(canvas, made);
  assert.deepEqual(changed.nodes.denoise?.inputs, { ...NODES.denoise.inputs, seed: 9, steps: 4 });
  assert.equal(changed.nodes.extra, canvas.nodes.extra);
  assert.equal(recallAll(made, made), made);
});

test("a result is recalled whole: its own prompt may be cut, and its size is the file's", () => {
  const long = "p".repeat(3000);
  const graph = workflow({ text: node("Text", { prompt: long, negative_prompt: "grey" }) });
  const result = { prompt: long.slice(0, 2000), seed: 0, width: 64, height: 32 };
  assert.deepEqual(recalledOf(graph, CATALOG, result, new Set(["text"])), {
    ...{ prompt: long, negative_prompt: "grey", seed: 0 },
    size: { width: 64, height: 32 },
  });
});

test("all values behind a result are told in the order of the work, with what the run chose", () => {
  const graph = workflow({ ...NODES, other: node("Note") }, PARAMS);
  const inputs = { denoise: { seed: 7, steps: 16 }, text: { prompt: "a star" }, other: { text: "x" } };
  const told = valuesBehind({ graph, node: "denoise" }, CATALOG, inputs, { denoise: { steps: 16 } });
  assert.deepEqual(told, [
    { node: "text", title: "Encode Text", values: [{ socket: "prompt", value: "a star", isMeant: false }] },
    {
      ...{ node: "denoise", title: "Denoise" },
      values: [
        { socket: "seed", value: "7", isMeant: false },
        { socket: "steps", value: "16", isMeant: true },
      ],
    },
  ]);
});

test("behind a picture of a for-each are its element's nodes, and of a batch those of its part", () => {
  const model = { model: { param: "model" } };
  const graph = fromFile({
    format: 2,
    name: "many",
    nodes: {
      load: { type: "Load", inputs: { source: "toy" } },
      paint: {
        type: "sub:paint",
        inputs: { model: { from: "load.model" } },
        each: { name: ["a star", "a ring"] },
      },
      last: { type: "Work", inputs: { latents: { from: "paint.latents" }, steps: 3 } },
    },
    subs: {
      paint: {
        params: { model: { type: "Model" }, name: { type: "string" } },
        nodes: {
          first: { type: "Work", inputs: { ...model, name: { param: "name" } } },
          second: { type: "Work", inputs: { ...model, latents: { from: "first.latents" } } },
          beside: { type: "Work", inputs: model },
        },
        outputs: { latents: { from: "second.latents" } },
      },
    },
  });
  const inputs: Record<string, Record<string, string>> = { load: { source: "toy" }, "paint/latents": {} };
  for (const [index, name] of ["a star", "a ring"].entries()) {
    for (const node of ["first", "second", "beside"]) inputs[`paint/${index + 1}/${node}`] = { name };
  }
  const ran = Object.keys(inputs);
  assert.deepEqual([...behind(graph, ran, "paint/2/second")].sort(), ["load", "paint/2/first", "paint/2/second"]);
  assert.equal(behind(graph, ran, "last").size, 6);
  const one = { graph, node: "last", part: "paint/2/second" };
  assert.deepEqual(inputsBehind(one, {}, inputs), [
    { name: "load.source", value: "toy" },
    { name: "last.steps", value: "3" },
    { name: "paint/2/first.name", value: "a ring" },
    { name: "paint/2/second.name", value: "a ring" },
  ]);
  const told = valuesBehind(one, TOYS, inputs, {});
  assert.deepEqual(
    told.map(({ node }) => node),
    ["load", "paint/2/first", "paint/2/second"],
  );
});
