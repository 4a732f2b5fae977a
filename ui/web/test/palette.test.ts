import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { inUse, missingOf, otherWords } from "../src/canvas/popups/nodeWords";
import { noteUse, usedNodes } from "../src/canvas/popups/nodeUse";
import { found } from "../src/canvas/popups/searchRank";
import data from "../src/canvas/popups/synonyms.json";
import { newBrowser } from "./browser";
import { shippedFiles, spec } from "./graphs";

beforeEach(() => void newBrowser());

const ITEMS = Object.keys(data.nodes).map((id) => ({ id, label: id, more: "", also: otherWords(id) }));
const hits = (query: string): string[] => found(ITEMS, query).map(({ id }) => id);

test("what other tools call a node finds it, and finds it first", () => {
  const wanted: Record<string, string> = {
    KSampler: "LoomDenoise",
    checkpoint: "LoomLoadModel",
    "CLIP Text Encode": "LoomEncodeText",
    "vae decode": "LoomDecode",
    "vae encode": "LoomEncodeImage",
    "empty latent image": "LoomEmptyLatents",
    "preview image": "LoomSaveImage",
    "grow mask": "LoomBlurMask",
    "random seed": "LoomSeed",
    wildcard: "LoomVaryText",
  };
  for (const [query, id] of Object.entries(wanted)) assert.equal(hits(query)[0], id, query);
  for (const query of ["inpaint", "mask", "random", "vae", "img2img", "upscale", "controlnet", "clip", "multi gpu"]) {
    assert.ok(hits(query).length > 0, query);
  }
});

test("what is not here is said, with what comes nearest; what is here is not", () => {
  const what = (query: string) => missingOf(query)?.what ?? null;
  assert.deepEqual(["controlnet", "Control Net", "ip-adapter", "IPAdapter", "esrgan", "face detailer"].map(what), [
    "ControlNet",
    "ControlNet",
    "IP-Adapter",
    "IP-Adapter",
    "Upscale Model",
    "Face Detailer",
  ]);
  assert.deepEqual(["ksampler", "upscale", "co", "", "mask", "sam", "xyz"].map(what), Array(7).fill(null));
  assert.deepEqual(
    missingOf("controlnet")?.nearest.every((id) => hits("controlnet").includes(id)),
    true,
  );
});

test("what is nearest is a node that other words are known of", () => {
  for (const { nearest } of data.missing) for (const id of nearest) assert.ok(Object.hasOwn(data.nodes, id), id);
});

test("the usual order is how often the shipped workflows have each node", () => {
  const counts = new Map<string, number>();
  for (const [, { nodes }] of shippedFiles()) {
    for (const { type } of Object.values(nodes)) counts.set(type, (counts.get(type) ?? 0) + 1);
  }
  const common = [...counts].filter(([, count]) => count > 9).map(([type]) => type);
  assert.deepEqual(new Set(data.usual.slice(0, common.length)), new Set(common));
});

test("fit comes before use, and use before what is usual", () => {
  const item = (id: string, fit = 0) => ({ spec: spec(id, [], {}), fit });
  const items = [item("LoomLoadLora"), item("LoomDecode"), item("Used"), item("LoomDenoise"), item("Fits", 1)];
  const order = inUse(items, ["Used"]).map(({ spec: { id } }) => id);
  assert.deepEqual(order, ["Fits", "Used", "LoomDenoise", "LoomDecode", "LoomLoadLora"]);
});

test("what was used last is remembered once, the last first", () => {
  for (const type of ["a", "b", "a"]) noteUse(type);
  assert.deepEqual(usedNodes(), ["a", "b"]);
  localStorage.setItem("loom.used_nodes", "{broken");
  assert.deepEqual(usedNodes(), []);
});
