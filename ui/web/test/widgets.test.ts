import assert from "node:assert/strict";
import { test } from "node:test";
import {
  exposeParam,
  fold,
  giveValue,
  hideParam,
  rename,
  setInput,
  setSeedNew,
  withMovingSeeds,
} from "../src/graph/edits";
import { newSeedsOf } from "../src/graph/edits/seeds";
import { emptyGraph, fromFile, toFile } from "../src/graph/file/workflowFile";
import { hubAddress, hubModelIn, isHubId, pullCommand } from "../src/models/pullCommand";
import { insideOf, withInsides } from "../src/graph/inside";
import type { Catalog, EditorGraph, GraphFile } from "../src/types";
import { limit, readNumber, sliderOf, stepped } from "../src/widgets/numbers/numberRange";
import { isKept, newSeed, setKept, withNewSeeds, withSeedsThrown } from "../src/widgets/numbers/seeds";
import { areasOf, megapixels, painted, pixelsOf, RATIOS, ratioOf, scaled, sizeOf } from "../src/widgets/numbers/sizes";
import { meantText } from "../src/widgets/widget";
import { input, spec } from "./graphs";

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
  const keys = ["a.seed", "b.seed", "gone.seed", "$seed", "$constructor"];
  const changing = keys.reduce((last, key) => setSeedNew(last, key, true), graph);
  const next = withNewSeeds(changing);
  assert.notEqual(next.nodes.a?.inputs.seed, -1);
  assert.deepEqual(next.nodes.b?.inputs.seed, { from: "a.x" });
  assert.notEqual(next.params.seed?.default, -1);
  assert.deepEqual(Object.keys(next.nodes), ["a", "b"]);
  assert.deepEqual(newSeedsOf(fromFile(toFile(changing))), keys);
  assert.deepEqual(newSeedsOf(rename(changing, "a", "c")), ["c.seed", ...keys.slice(1)]);
  assert.deepEqual(setSeedNew(changing, "$seed", false).meta, { $seeds: keys.filter((key) => key !== "$seed") });
  const older = fromFile({ ...toFile(graph), layout: { $seeds: ["a.seed"] } });
  assert.deepEqual(toFile(setSeedNew(older, "$seed", true)).meta, { $seeds: ["a.seed", "$seed"] });
  setKept("#form.seed", false);
  assert.ok(!isKept("#form.seed") && isKept("#form.other"));
});

test("a seed that nobody touched moves wherever it goes, and stays once somebody sets it", () => {
  const seed = input("seed", "int", { widget: "seed", default: 0 });
  const text = input("text", "string", { widget: "multiline" });
  const catalog: Catalog = { version: "1", types: [], nodes: [spec("Draw", [seed, text], { image: "Image" })] };
  const file: GraphFile = {
    format: 1,
    name: "w",
    nodes: { a: { type: "Draw" }, b: { type: "Draw", inputs: { seed: 3 } } },
  };
  const moving = withMovingSeeds(fromFile(file), catalog);
  assert.deepEqual(newSeedsOf(moving), ["a.seed", "b.seed"]);
  const next = withNewSeeds(moving);
  assert.deepEqual(newSeedsOf(next), ["a.seed", "b.seed"]);
  assert.notEqual(next.nodes.b?.inputs.seed, 3);
  assert.deepEqual(newSeedsOf(setInput(moving, "a", "text", "a star")), ["a.seed", "b.seed"]);
  assert.deepEqual(newSeedsOf(giveValue(moving, "a", "seed", 7)), ["b.seed"]);
  const exposed = exposeParam(moving, "a", { spec: seed, name: "seed" });
  assert.deepEqual(newSeedsOf(exposed), ["b.seed", "$seed"]);
  assert.deepEqual(newSeedsOf(giveValue(exposed, "a", "seed", 7)), ["b.seed"]);
  assert.deepEqual(newSeedsOf(hideParam(exposed, "seed")), ["b.seed", "a.seed"]);
  const folded = fold(moving, catalog, ["a", "b"])!;
  assert.deepEqual(newSeedsOf(folded.graph), [`${folded.name}.seed`]); // b's has a value: a field of the node
  const inside = insideOf(folded.graph, [folded.name])!;
  assert.deepEqual(newSeedsOf(inside), ["a.seed"]);
  const thrown = withInsides(folded.graph, withNewSeeds);
  assert.equal(typeof insideOf(thrown, [folded.name])?.nodes.a?.inputs.seed, "number");
  assert.deepEqual(newSeedsOf(insideOf(fromFile(toFile(thrown)), [folded.name])!), ["a.seed"]);
  const once = withSeedsThrown(fromFile(file), catalog);
  assert.ok(once.nodes.a?.inputs.seed !== undefined && newSeedsOf(once).length === 0);
});

test("a slider reaches a few times as far as the model's own number, and as far as what is there", () => {
  assert.deepEqual(sliderOf(STEPS, 16), { min: 0, max: 48, step: 1 });
  assert.deepEqual(sliderOf(STEPS, 16, 200), { min: 0, max: 200, step: 1 });
  assert.deepEqual(sliderOf({ ...STEPS, max: 10_000 }, 16, 10_000), { min: 0, max: 48, step: 1 });
  assert.deepEqual(sliderOf({ type: "int", min: 0, max: 16384, step: null }, 128), { min: 0, max: 384, step: 1 });
  assert.equal(sliderOf({ type: "int", min: 0, max: 16384, step: null }), null);
  assert.equal(sliderOf({ type: "int", min: 0, max: 4096, step: null }, 1), null);
  assert.equal(sliderOf(STRENGTH, 1)?.max, 1);
});

test("a shape becomes a size that the model takes, at the area that there is", () => {
  const own = { width: 1024, height: 1024, multiple: 16, most_side: 0 };
  assert.deepEqual(sizeOf("3:2", 1024 * 1024, own), { width: 1248, height: 832 });
  assert.deepEqual(sizeOf("9:16", 64, own), { width: 16, height: 16 });
  assert.deepEqual(painted({ width: 0, height: 512 }, own), { width: 1024, height: 512 });
  for (const ratio of RATIOS) assert.equal(ratioOf(sizeOf(ratio, 1024 * 1024, own), own), ratio);
  assert.equal(ratioOf({ width: 1000, height: 100 }, own), "");
});

test("an area keeps the shape, the multiple and the longest side", () => {
  const own = { width: 128, height: 128, multiple: 8, most_side: 192 };
  assert.equal(megapixels(own), 0.016);
  assert.equal(pixelsOf(0.016, own), 128 * 128);
  assert.deepEqual(scaled({ width: 128, height: 128 }, 64 * 64, own), { width: 64, height: 64 });
  assert.deepEqual(scaled({ width: 128, height: 128 }, 1e6, own), { width: 192, height: 192 });
  assert.deepEqual(sizeOf("16:9", 192 * 192, own), { width: 192, height: 112 });
  assert.deepEqual(scaled({ width: 120, height: 40 }, 4 * 120 * 40, own), { width: 192, height: 64 });
  const { min, max, step } = areasOf(own, own);
  assert.deepEqual([min, max, step], [0.002, 0.037, 0.00026]);
});

test("a model of the hub is found in what people paste, with its revision", () => {
  const qwen = { source: "Qwen/Qwen-Image", revision: "" };
  assert.deepEqual(hubModelIn(" Qwen/Qwen-Image "), qwen);
  assert.deepEqual(hubModelIn("https://huggingface.co/Qwen/Qwen-Image/blob/main/README.md"), qwen);
  const wan = { source: "Wan-AI/Wan2.1", revision: "refs/pr/1" };
  assert.deepEqual(hubModelIn("https://huggingface.co/Wan-AI/Wan2.1/tree/refs%2Fpr%2F1?x=1"), wan);
  for (const model of [qwen, wan]) assert.deepEqual(hubModelIn(hubAddress(model)), model);
  assert.equal(hubModelIn("a/b/tree/%").revision, "%");
  const none = ["", "bobbin", "a b/c", "../../etc", "x/$(rm)", "/srv/models"];
  for (const text of none) assert.equal(hubModelIn(text).source, "");
  assert.ok(!isHubId("/srv/models/flux"));
  assert.equal(pullCommand(wan), "latentloom models pull Wan-AI/Wan2.1 --revision refs/pr/1");
  assert.equal(pullCommand({ ...wan, revision: "$(rm)" }), "latentloom models pull Wan-AI/Wan2.1");
});

test("a value that stands for something else says what it will be", () => {
  assert.equal(meantText(0, 16), "auto: 16");
  assert.equal(meantText("", "a blur"), "auto: a blur");
  assert.equal(meantText(null, 3), "auto: 3");
  assert.equal(meantText("all", "cpu*2"), "all: cpu*2");
  assert.equal(meantText("cuda:1", "cpu"), "");
  assert.equal(meantText(20, 16), "");
  assert.equal(meantText(0, undefined), "");
  assert.equal(meantText(0, undefined, true), "auto");
  assert.equal(meantText(0, 16, true), "auto: 16");
  assert.equal(meantText(7, undefined, true), "");
  assert.equal(meantText("", "x".repeat(200)).length, "auto: ".length + 161);
});
