import assert from "node:assert/strict";
import { test } from "node:test";
import { differing } from "../src/gallery/compare/differing";
import { pixelDifference } from "../src/gallery/compare/pixelDifference";
import { changeable, inputOf, valueOf } from "../src/gallery/detail/changeable";
import { inputsBehind } from "../src/gallery/inputsBehind";
import { byDay, neighbour, sweeps, withNewest, withOlder } from "../src/gallery/resultPages";
import { lengthOf } from "../src/gallery/resultWords";
import { asImageToImage } from "../src/gallery/recall/imageToImage";
import { actualSize, panned, place, WHOLE, zoomed } from "../src/gallery/stage/zoom";
import { cellSize } from "../src/gallery/sweeps/gridPicture";
import { heading, sweepTable } from "../src/gallery/sweeps/sweepTable";
import { addNode } from "../src/graph/edits";
import { fromFile } from "../src/graph/file/workflowFile";
import type { Catalog, GraphFile, Json, Result, Run } from "../src/types";
import { input, shipped, spec } from "./graphs";
import { liveRun } from "./live";

const ids = (items: readonly { id: string }[]) => items.map((item) => item.id).join(" ");
const items = ["e", "d", "c", "b", "a"].map((id) => result(id));

test("an older page goes behind, and what is known is not shown twice", () => {
  assert.equal(ids(withOlder(items.slice(0, 3), items.slice(2))), "e d c b a");
});

test("a fresh first page brings what is new and takes out what was deleted, and keeps what is older", () => {
  const page = [result("f"), ...items.filter((item) => item.id !== "d").slice(0, 2)];
  assert.equal(ids(withNewest(items, page, false)), "f e c b a");
});

test("a fresh first page without an overlap starts the list anew: there may be a gap", () => {
  assert.equal(ids(withNewest(items, [result("z"), result("y")], false)), "z y");
  assert.equal(ids(withNewest(items, [], true)), "");
});

test("a video is as long as its frames, a sound as it says, a picture not at all", () => {
  const some = [
    result("v", { kind: "video", frames: 8, fps: 16 }),
    result("j"),
    result("s", { kind: "audio", width: 0, height: 0, rate: 8000, channels: 2, length_s: 1.5 }),
  ];
  assert.deepEqual(some.map(lengthOf), [0.5, 0, 1.5]);
});

test("results of one day stand together, and arrows go to the neighbour or nowhere", () => {
  const days = byDay([result("b", { time: 200_000 }), result("a", { time: 200_000 - 86_400 })]);
  assert.deepEqual(
    days.map((day) => ids(day.items)),
    ["b", "a"],
  );
  assert.equal(neighbour(items, "d", 1)?.id, "c");
  assert.equal(neighbour(items, "e", -1), undefined);
  assert.equal(neighbour(items, "gone", 1), undefined);
});

test("a sweep is a table: the last name along the columns, the others along the rows, numbers in order", () => {
  const runs = [
    run("r1", { guidance: 10, seed: 2 }),
    run("r2", { guidance: 9, seed: 1 }),
    run("r3", { guidance: 9, seed: 2 }),
  ];
  const table = sweepTable(runs, [result("x", { run: "r1" })]);
  assert.deepEqual(table.columns.map(heading), ["seed 1", "seed 2"]);
  assert.deepEqual(table.rows.map(heading), ["guidance 9", "guidance 10"]);
  assert.deepEqual(
    table.cells.map((row) => row.map((cell) => cell.run?.id ?? "")),
    [
      ["r2", "r3"],
      ["", "r1"],
    ],
  );
  assert.equal(ids(table.cells[1]![1]!.results), "x");
  assert.deepEqual(sweepTable(runs, [], true).columns.map(heading), ["guidance 9", "guidance 10"]);
});

test("results of runs that are forgotten still have their place, and texts keep their order", () => {
  const made = ["night", "day"].map((light, at) => result(light, { run: light, varied: { light }, time: at }));
  const table = sweepTable([], made);
  assert.deepEqual(table.columns.map(heading), ["light night", "light day"]);
  assert.equal(heading({ "denoise.steps": 5, negative_prompt: "blur" }), "denoise: steps 5, negative prompt blur");
  assert.equal(table.rows.length, 1);
  assert.equal(ids(table.cells[0]!.flatMap((cell) => cell.results)), "night day");
});

test("sweeps are batches that vary something", () => {
  const found = sweeps([run("r1", { seed: 1 }), run("r2", { seed: 2 }), { ...run("r3", {}), batch: "single" }]);
  assert.deepEqual(
    found.map(({ batch, varied, runs }) => [batch, varied, runs.length]),
    [["batch", ["seed"], 2]],
  );
});

test("only what differs is told, and a declared param is not told again as a fact", () => {
  const a = result("a", { params: { seed: 1, steps: 20 }, seed: 1, plan: "" });
  const b = result("b", { params: { seed: 2, steps: 20 }, seed: 2, plan: "ulysses=2" });
  assert.deepEqual(
    differing(a, b, (key) => key),
    [
      { kind: "value", name: "seed", a: "1", b: "2" },
      { kind: "value", name: "gallery.plan", a: "", b: "ulysses=2" },
    ],
  );
});

const CATALOG = {
  nodes: [{ id: "Denoise", chosen_by: [], inputs: [{ name: "steps", default: 0 }] }],
} as unknown as Catalog;

function maker(nodes: GraphFile["nodes"], node = "save") {
  return { graph: fromFile({ format: 1, name: "toy", nodes } as GraphFile), node, end: node };
}

function madeBy(inputs: Record<string, unknown>, name = "denoise", save = "save"): GraphFile["nodes"] {
  const link = { from: `${name}.latents` };
  return { [name]: { type: "Denoise", inputs }, [save]: { type: "Save", inputs: { image: link } } } as never;
}

test("the nodes' inputs that differ are told too, and what is not set is what its node takes", () => {
  const [a, b] = [result("a", { seed: 7, varied: { "denoise.steps": 5 } }), result("b", { seed: 9 })];
  const makers = {
    a: maker(madeBy({ seed: 7, steps: 5, guidance: 2 })),
    b: maker(madeBy({ seed: 9, guidance: 2 })),
    catalog: CATALOG,
  };
  const rows = differing(a, b, (key) => key, makers);
  assert.deepEqual(rows, [
    { kind: "value", name: "gallery.seed", a: "7", b: "9" },
    { kind: "value", name: "denoise.steps", a: "5", b: "0" },
  ]);
  assert.deepEqual(
    differing(a, b, (key) => key).map((row) => row.name),
    ["gallery.seed", "denoise.steps"],
  );
});

test("two results of one run differ in the nodes that made them", () => {
  const nodes = { ...madeBy({ guidance: 1 }, "weak", "one"), ...madeBy({ guidance: 7 }, "strong", "two") };
  const makers = { a: maker(nodes, "one"), b: maker(nodes, "two"), catalog: CATALOG };
  const rows = differing(result("a"), result("b"), (key) => key, makers);
  assert.deepEqual(rows, [{ kind: "value", name: "weak.guidance / strong.guidance", a: "1", b: "7" }]);
});

test("what is set on the nodes behind a result is told, params and other branches are not", () => {
  const nodes = { ...madeBy({ steps: 5, seed: { param: "seed" } }), ...madeBy({ steps: 9 }, "other", "elsewhere") };
  assert.deepEqual(inputsBehind(maker(nodes)), [{ name: "denoise.steps", value: "5" }]);
  const meant = { denoise: { steps: 16, sampling: { shift: 3 } }, other: { steps: 28 } };
  assert.deepEqual(inputsBehind(maker(nodes), meant), [
    { name: "denoise.steps", value: "16" },
    { name: "denoise.shift", value: "3" },
  ]);
});

test("a difference counts its largest step and the share of pixels, and amplifies what it shows", () => {
  const a = new Uint8ClampedArray([10, 20, 30, 255, 1, 1, 1, 255]);
  const b = new Uint8ClampedArray([10, 20, 33, 255, 1, 1, 1, 255]);
  const { pixels, max, mean, changed } = pixelDifference(a, b, 100);
  assert.deepEqual([...pixels], [0, 0, 255, 255, 0, 0, 0, 255]);
  assert.deepEqual([max, mean, changed], [3, 0.5, 0.5]);
});

test("zooming keeps the point under the pointer, and the picture stays in the stage", () => {
  const room = { picture: { width: 400, height: 400 }, stage: { width: 200, height: 200 } };
  const view = zoomed(WHOLE, 4, { at: { x: 50, y: 150 }, ...room });
  const placed = place(view, room.picture, room.stage);
  assert.deepEqual([placed.left, placed.top, placed.width], [-150, -450, 800]);
  assert.equal(place(panned(view, 1e6, 0, room.picture, room.stage), room.picture, room.stage).left, 0);
  assert.equal(place(actualSize(view, room.picture, room.stage), room.picture, room.stage).scale, 1);
  assert.deepEqual(zoomed(view, 1e-6, room), WHOLE);
});

test("a grid of many large pictures is drawn smaller than browsers can draw", () => {
  const many = Array.from({ length: 30 }, String);
  const cell = cellSize({ title: "", rows: many, columns: many, cells: [], width: 2048, height: 2048 });
  assert.ok(cell.width * 30 < 8192 && cell.height * 30 < 8192 && cell.width > 100);
});

const graph: GraphFile = {
  format: 1,
  name: "toy",
  params: { prompt: { type: "string", default: "a star" } },
  nodes: { denoise: { type: "LoomDenoise", inputs: { seed: 3, prompt: { param: "prompt" } } } },
};

test("params can be changed, and the seed also where it is no param", () => {
  assert.deepEqual(changeable(graph), ["prompt", "denoise.seed"]);
  assert.equal(inputOf(graph, "denoise.seed")?.widget, "seed");
  assert.equal(inputOf(graph, "prompt")?.widget, "multiline");
  assert.equal(valueOf(graph, "denoise.seed"), 3);
  assert.equal(valueOf(graph, "prompt"), "a star");
});

function result(id: string, facts: Partial<Result> = {}): Result {
  return {
    ...{ id, run: `run-${id}`, batch: "batch", node: "save", kind: "image", name: id, width: 8, height: 8, frames: 1 },
    ...{ fps: 0, bytes: 1, time: 0, workflow_name: "toy", params: {}, prompt: "", seed: null, plan: "", seconds: 1 },
    ...{ rate: 0, channels: 0, length_s: 0 },
    ...{ varied: {}, ...facts },
  } as Result;
}

function run(id: string, varied: Record<string, Json>): Run {
  return liveRun(id, { created: Number(id.slice(1)), varied, state: "done", total: 1, done: 1 });
}

test("a picture on the canvas becomes what the denoise begins with, in the place of empty latents", () => {
  const encode = spec("LoomEncodeImage", [input("model", "Model"), input("image", "Image")], { latents: "Latents" });
  const catalog: Catalog = { version: "1", types: [], nodes: [encode] };
  const load = spec("LoomLoadImage", [input("path", "string")], { image: "Image" });
  const graph = addNode(shipped("first_picture.json"), { name: "mine", spec: load, at: [0, 0] });
  const wired = asImageToImage(graph, catalog, "mine")!;
  assert.ok(!("empty_latents" in wired.nodes));
  assert.deepEqual(wired.nodes.encode_image?.inputs, {
    model: { from: "load_model.model" },
    image: { from: "mine.image" },
  });
  assert.deepEqual(wired.nodes.denoise?.inputs.latents, { from: "encode_image.latents" });
  assert.equal(wired.nodes.denoise?.inputs.strength, 0.6);
  assert.equal(asImageToImage(wired, catalog, "mine"), null);
});
