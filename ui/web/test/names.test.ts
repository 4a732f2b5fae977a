import assert from "node:assert/strict";
import { test } from "node:test";
import { idsOf, itemKey, parseItem } from "../src/graph/items";
import { freshName, isName, nameFrom } from "../src/graph/names";
import { needsOf, inOrder } from "../src/graph/order";
import { toyGraph } from "./graphs";

test("names follow the file's pattern", () => {
  for (const good of ["a", "load_model", "a9", "a".repeat(64)]) assert.ok(isName(good), good);
  for (const bad of ["", "9a", "_a", "A", "a b", "ä", "a.b", "a".repeat(65)]) assert.ok(!isName(bad), bad);
});

test("any text gives a legal name", () => {
  const texts = [
    "Load Model",
    "LoRA",
    "  9 lives ",
    "Größe",
    "…",
    "",
    "日本",
    "a".repeat(200),
    "<script>",
    "constructor",
  ];
  for (const text of texts) assert.ok(isName(nameFrom(text)), text);
  assert.equal(nameFrom("Load Model"), "load_model");
  assert.equal(nameFrom("Größe"), "gro_e");
});

test("a taken name gets the next free number and stays legal", () => {
  const taken = new Set(["a", "a_2", "x_9", "l".repeat(64)]);
  const fresh = (name: string): string => freshName(name, (found) => taken.has(found));
  assert.deepEqual(["a", "b", "x_9"].map(fresh), ["a_3", "b", "x_2"]);
  assert.ok(isName(fresh("l".repeat(64))));
});

test("item keys go there and back; other text is no key", () => {
  assert.deepEqual(parseItem(itemKey("wire", "a.b")), { kind: "wire", id: "a.b" });
  for (const bad of ["", "n", "nodes", "x:a"]) assert.equal(parseItem(bad), null);
  assert.deepEqual(idsOf(["n:a", "g:b", "n:c"], "node"), ["a", "c"]);
});

test("order puts sources first, and a circle last", () => {
  const graph = toyGraph();
  assert.deepEqual(inOrder(graph), ["load", "whole", "pick", "first", "second"]);
  assert.deepEqual([...needsOf(graph, "second")].sort(), ["first", "load", "second"]);
  graph.nodes.first!.inputs.latents = { from: "second.latents" };
  assert.deepEqual(inOrder(graph), ["load", "whole", "pick", "first", "second"]);
});
