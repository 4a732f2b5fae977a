import assert from "node:assert/strict";
import { test } from "node:test";
import { emptyGraph } from "../src/graph/file/workflowFile";
import { hubIdIn, isHubId } from "../src/models/pullCommand";
import type { EditorGraph } from "../src/types";
import { limit, readNumber, sliderOf, stepped } from "../src/widgets/numbers/numberRange";
import { isKept, newSeed, setKept, withNewSeeds } from "../src/widgets/numbers/seeds";
import { meantText } from "../src/widgets/widget";

const STEPS = { type: "int", min: 0, max: 1000, step: null };
const STRENGTH = { type: "float", min: 0.01, max: 1, step: 0.01 };

test("a typed number is read, with a comma too", () => {
  assert.deepEqual(readNumber(" 12 ", STEPS), { value: 12, changed: "" });
  assert.deepEqual(readNumber("0,5", STRENGTH), { value: 0.5, changed: "" });
  assert.deepEqual(readNumber("1e2", STEPS), { value: 100, changed: "" });
});

test("what is no number is not taken for one", () => {
  for (const text of ["", "abc", "1.2.3", "NaN", "Infinity", "12px"]) assert.equal(readNumber(text, STEPS).value, null);
});

test("a number out of range is brought to its end, and that is said", () => {
  assert.deepEqual(readNumber("5000", STEPS), { value: 1000, changed: "limited" });
  assert.deepEqual(readNumber("-1", STEPS), { value: 0, changed: "limited" });
  assert.equal(limit(7, { type: "int", min: null, max: null, step: null }), 7);
});

test("a whole number is rounded, and that is said", () => {
  assert.deepEqual(readNumber("2.6", STEPS), { value: 3, changed: "rounded" });
});

test("arrow keys leave no dust of binary fractions", () => {
  assert.equal(stepped(0.1 + 0.2, 1, STRENGTH), 0.31);
  assert.equal(stepped(1, 1, STRENGTH), 1);
  assert.equal(stepped(4, -10, STEPS), 0);
});

test("a slider is drawn only where each of its positions can be met", () => {
  assert.deepEqual(sliderOf(STEPS), { min: 0, max: 1000, step: 1 });
  assert.equal(sliderOf({ type: "int", min: 0, max: 16384, step: null }), null);
  assert.equal(sliderOf({ type: "int", min: 0, max: null, step: null }), null);
});

test("a new seed is a whole number of at most ten digits", () => {
  const seed = newSeed();
  assert.ok(Number.isInteger(seed) && seed >= 0 && seed < 2 ** 32);
});

test("a new seed is one that its input takes", () => {
  for (let index = 0; index < 50; index += 1) {
    const seed = newSeed({ min: 5, max: 7 });
    assert.ok(Number.isInteger(seed) && seed >= 5 && seed <= 7);
  }
  assert.ok(newSeed({ min: -3 }) >= -3);
});

test("only seeds that are not kept change with a run", () => {
  const node = { type: "Denoise", version: 1, title: "", mode: "run" as const, at: [0, 0] as [number, number] };
  const graph: EditorGraph = {
    ...emptyGraph("seeds"),
    params: { seed: { type: "int", default: -1 } },
    nodes: { a: { ...node, inputs: { seed: -1 } }, b: { ...node, inputs: { seed: { from: "a.x" } } } },
  };
  assert.equal(withNewSeeds(graph), graph);
  for (const key of ["a.seed", "b.seed", "gone.seed", "$seed", "$constructor"]) setKept(key, false);
  const next = withNewSeeds(graph);
  assert.notEqual(next.nodes.a?.inputs.seed, -1);
  assert.deepEqual(next.nodes.b?.inputs.seed, { from: "a.x" });
  assert.notEqual(next.params.seed?.default, -1);
  assert.deepEqual(Object.keys(next.nodes), ["a", "b"]);
  setKept("a.seed", true);
  assert.ok(isKept("a.seed") && !isKept("$seed"));
});

test("a hub id is found in what people paste", () => {
  assert.equal(hubIdIn(" Qwen/Qwen-Image "), "Qwen/Qwen-Image");
  assert.equal(hubIdIn("https://huggingface.co/Wan-AI/Wan2.1/tree/main?x=1"), "Wan-AI/Wan2.1");
  for (const text of ["", "bobbin", "a b/c", "../../etc", "x/$(rm)", "/srv/models"]) assert.equal(hubIdIn(text), "");
  assert.ok(!isHubId("/srv/models/flux"));
});

test("a value that stands for something else says what it will be", () => {
  assert.equal(meantText(0, 16), "auto: 16");
  assert.equal(meantText("", "a blur"), "auto: a blur");
  assert.equal(meantText(null, 3), "auto: 3");
  assert.equal(meantText("all", "cpu*2"), "all: cpu*2");
  assert.equal(meantText("cuda:1", "cpu"), "");
  assert.equal(meantText(20, 16), "");
  assert.equal(meantText(0, undefined), "");
  assert.equal(meantText("", "x".repeat(200)).length, "auto: ".length + 161);
});
