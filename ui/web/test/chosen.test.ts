import assert from "node:assert/strict";
import { test } from "node:test";
import { choiceOf, nodeSpec } from "../src/graph/catalog";
import { choicesOf } from "../src/store/chosen";
import type { Catalog } from "../src/types";
import { listOf, listText } from "../src/widgets/ListField";
import { input, shipped, spec } from "./graphs";

const OWN = [
  input("source", "string", { default: "builtin:bobbin" }),
  input("pipeline", "choice", { default: "auto" }),
];
const BASE = { ...spec("LoomRunPipeline", OWN, { image: "Image", video: "Video" }), chosen_by: ["source", "pipeline"] };
const FLUX = spec("LoomRunPipeline", [...OWN, input("height", "int")], { image: "Image" });
const CATALOG: Catalog = { version: "", types: [], nodes: [BASE] };

test("a node whose sockets depend on its values has those of the choice, once the server has told them", () => {
  const graph = shipped("run_pipeline.json");
  const [found] = choicesOf(graph, (type) => CATALOG.nodes.find(({ id }) => id === type));
  assert.deepEqual(found?.choice.values, { source: "builtin:bobbin", pipeline: "FluxPipeline" });
  assert.equal(nodeSpec(graph, CATALOG, "run_pipeline"), BASE);
  const told = { ...CATALOG, chosen: { [found?.choice.key ?? ""]: FLUX } };
  assert.equal(nodeSpec(graph, told, "run_pipeline"), FLUX);
  const other = { ...graph.nodes.run_pipeline!, inputs: { pipeline: "WanPipeline" } };
  const changed = { ...graph, nodes: { ...graph.nodes, run_pipeline: other } };
  assert.equal(nodeSpec(changed, told, "run_pipeline"), BASE);
});

test("what is not given counts as its default, a param as its own, and other nodes make no choice", () => {
  const graph = shipped("run_pipeline.json");
  const node = { ...graph.nodes.run_pipeline!, inputs: { pipeline: { param: "prompt" } } };
  assert.deepEqual(choiceOf(graph, BASE, node)?.values, {
    source: "builtin:bobbin",
    pipeline: graph.params.prompt?.default,
  });
  assert.equal(choiceOf(graph, FLUX, node), null);
});

test("a list is written with commas; what is none yet is left to the server", () => {
  assert.deepEqual(listOf("1, 0.5"), [1, 0.5]);
  assert.deepEqual(listOf('["a, b"]'), ["a, b"]);
  assert.equal(listOf("  "), null);
  assert.equal(listOf("1, x"), "1, x");
  assert.equal(listText([1, 0.5]), "1,0.5");
  assert.equal(listText("1, x"), "1, x");
  assert.equal(listText(null), "");
});
