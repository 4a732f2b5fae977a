import assert from "node:assert/strict";
import { test } from "node:test";
import { fromFile } from "../src/graph/file/workflowFile";
import { find } from "../src/graph/find";
import type { Problem } from "../src/types";
import { TOYS } from "./graphs";

const GRAPH = fromFile({
  format: 1,
  name: "toy",
  params: { strength_of_all: { type: "float", default: 0.5 } },
  nodes: {
    last: { type: "Work", version: 1, title: "Größe ändern", inputs: { latents: { from: "first.latents" } } },
    first: {
      type: "Work",
      version: 1,
      inputs: { steps: 7, name: "A Red Star", strength: { param: "strength_of_all" } },
    },
    constructor: { type: "Gone", version: 1, inputs: { prompt: { value: { red: 1 } } } },
  },
  layout: {
    $groups: [{ id: "g", title: "Red ones", color: "", rect: [0, 0, 9, 9] }],
    $notes: [{ id: "n", text: "try a red\nstar", color: "", rect: [0, 0, 9, 9] }],
  },
});
const PROBLEM: Problem = {
  node: "last",
  socket: "model",
  code: "",
  message: "model is missing",
  kind: "error",
  mends: [],
  inside: "",
};
const hits = (query: string): string[] =>
  find(GRAPH, TOYS, [PROBLEM], query).map(({ key, where, socket }) => [key, where, socket].filter(Boolean).join(" "));

test("titles, names, types, values, params, problems, groups and comments are found, nodes in the order of their work", () => {
  assert.deepEqual(hits("red"), ["n:first value name", "n:constructor value prompt", "g:g group", "c:n note"]);
  assert.deepEqual(hits("work"), ["n:first title", "n:last type"]);
  assert.deepEqual(hits("grosse"), []);
  assert.deepEqual(hits("GROẞE and"), ["n:last title"]); // case and accents do not matter
  assert.deepEqual(hits("missing"), ["n:last problem model"]);
  assert.deepEqual(hits("last"), ["n:last name"]);
  assert.deepEqual(hits("strength_of"), ["n:first param strength"]);
  assert.deepEqual(hits("0.5"), ["n:first value strength"]);
});

test("all words must be in one place, a default counts as a value, and nothing is found by nothing", () => {
  assert.deepEqual(hits("star red"), ["n:first value name", "c:n note"]);
  assert.deepEqual(hits("7"), ["n:first value steps"]);
  assert.deepEqual(hits("4"), ["n:last value steps"]);
  assert.deepEqual(hits("  "), []);
});
