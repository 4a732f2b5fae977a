import assert from "node:assert/strict";
import { test } from "node:test";
import { specOf } from "../src/graph/catalog";
import * as edits from "../src/graph/edits";
import { toFile } from "../src/graph/file/workflowFile";
import { sourceOf } from "../src/graph/values";
import { TOYS, toyGraph } from "./graphs";

const work = specOf(TOYS, "Work")!;
const steps = work.inputs.find((input) => input.name === "steps")!;

test("a new node has its type, version and place, and a taken or illegal name changes nothing", () => {
  const graph = toyGraph();
  const added = edits.addNode(graph, { name: "third", spec: work, at: [5, 6] });
  assert.deepEqual(added.nodes.third, { type: "Work", version: 1, title: "", mode: "run", inputs: {}, at: [5, 6] });
  assert.equal(edits.addNode(graph, { name: "first", spec: work, at: [0, 0] }), graph);
  assert.equal(edits.addNode(graph, { name: "No Name", spec: work, at: [0, 0] }), graph);
});

test("removing a node takes its wires and declared outputs with it", () => {
  const graph = edits.removeItems(toyGraph(), ["n:first"]);
  assert.deepEqual(Object.keys(graph.nodes), ["load", "whole", "pick", "second"]);
  assert.deepEqual(graph.nodes.second!.inputs, { model: { from: "load.model" }, steps: 7 });
  assert.deepEqual(edits.removeItems(toyGraph(), ["n:second"]).outputs, {});
});

test("removing a wire leaves the rest; keys of nothing change nothing", () => {
  const graph = edits.removeItems(toyGraph(), ["e:second.latents"]);
  assert.equal(sourceOf(graph, "second.latents"), null);
  assert.equal(sourceOf(graph, "second.model"), "load.model");
  const same = toyGraph();
  assert.equal(edits.removeItems(same, ["e:second.steps", "n:nobody", "g:x", "c:x", "r:x", "what"]), same);
});

test("connecting replaces what the input had, and a value brings back what a wire replaced", () => {
  const linked = edits.connect(toyGraph(), "whole.int", "second.steps");
  assert.deepEqual(linked.nodes.second!.inputs.steps, { from: "whole.int" });
  assert.equal(edits.setInput(linked, "second", "steps", 5).nodes.second!.inputs.steps, 5);
  assert.ok(!("steps" in edits.setInput(linked, "second", "steps", undefined).nodes.second!.inputs));
});

test("a renamed node keeps its place in the file, and every link, output, reroute and layout entry follows", () => {
  let graph = edits.addReroute(toyGraph(), { id: "r1", input: "second.latents", at: [1, 1] });
  graph = { ...graph, rest: { first: { zoom: 2 } } };
  const renamed = edits.rename(graph, "first", "begin");
  assert.deepEqual(Object.keys(renamed.nodes), ["load", "whole", "pick", "begin", "second"]);
  assert.equal(sourceOf(renamed, "second.latents"), "begin.latents");
  assert.equal(renamed.reroutes.r1!.from, "begin.latents");
  assert.deepEqual(renamed.rest, { begin: { zoom: 2 } });
  const both = edits.rename(renamed, "second", "end");
  assert.deepEqual([both.outputs, both.via], [{ result: { from: "end.latents" } }, { "end.latents": "r1" }]);
  for (const bad of ["second", "Bad Name", "", "begin"]) assert.equal(edits.rename(renamed, "begin", bad), renamed);
});

test("an exposed input becomes a param with its value, range and help; hiding gives the value back", () => {
  const shown = edits.exposeParam(toyGraph(), "second", { spec: steps, name: "steps" });
  assert.deepEqual(shown.params.steps, { type: "int", default: 7 });
  assert.deepEqual(shown.nodes.second!.inputs.steps, { param: "steps" });
  const both = edits.exposeParam(shown, "first", { spec: steps, name: "steps" });
  const changed = edits.renameParam(edits.setParam(both, "steps", { default: 9, help: "How many" }), "steps", "rounds");
  assert.deepEqual(changed.params, { rounds: { type: "int", default: 9, help: "How many" } });
  const hidden = edits.hideParam(changed, "rounds");
  assert.deepEqual([hidden.params, hidden.nodes.first!.inputs.steps, hidden.nodes.second!.inputs.steps], [{}, 9, 9]);
});

test("an input that takes no plain value cannot become a param", () => {
  const graph = toyGraph();
  assert.equal(edits.exposeParam(graph, "first", { spec: work.inputs[0]!, name: "model" }), graph);
});

test("reroutes: a chain leads to the source, and taking one out keeps the wires", () => {
  let graph = edits.addReroute(toyGraph(), { id: "r1", input: "second.latents", at: [1, 1] });
  graph = edits.addReroute(graph, { id: "r2", input: "second.latents", at: [2, 2] });
  assert.deepEqual([graph.reroutes.r2!.from, graph.via], ["$r1", { "second.latents": "r2" }]);
  const shorter = edits.removeReroute(graph, "r1");
  assert.deepEqual(shorter.reroutes, { r2: { at: [2, 2], from: "first.latents" } });
  assert.deepEqual(edits.removeReroute(graph, "r2").via, { "second.latents": "r1" });
  const none = edits.removeReroute(edits.removeReroute(graph, "r2"), "r1");
  assert.deepEqual([none.reroutes, none.via, sourceOf(none, "second.latents")], [{}, {}, "first.latents"]);
});

test("a wire drawn from a reroute runs through it; reroutes without wires go", () => {
  let graph = edits.addReroute(toyGraph(), { id: "r1", input: "first.model", at: [1, 1] });
  graph = edits.connect(graph, "$r1", "second.model");
  assert.deepEqual(graph.via, { "first.model": "r1", "second.model": "r1" });
  assert.deepEqual(edits.disconnect(graph, "first.model").via, { "second.model": "r1" });
  assert.deepEqual(edits.removeItems(graph, ["n:load"]).reroutes, {});
});

test("moving and resizing reach every kind of item, and the same place changes nothing", () => {
  let graph = edits.addGroup(toyGraph(), { id: "g1", title: "G", color: "", rect: [0, 0, 10, 10] });
  graph = edits.addNote(graph, { id: "c1", text: "", color: "", rect: [0, 0, 10, 10] });
  graph = edits.addReroute(graph, { id: "r1", input: "second.latents", at: [1, 1] });
  const moved = edits.move(graph, {
    "n:load": [9, 9],
    "g:g1": [8, 8],
    "c:c1": [7, 7],
    "r:r1": [6, 6],
    "n:nobody": [1, 1],
  });
  assert.deepEqual(
    [moved.nodes.load!.at, moved.groups[0]!.rect, moved.notes[0]!.rect, moved.reroutes.r1!.at],
    [
      [9, 9],
      [8, 8, 10, 10],
      [7, 7, 10, 10],
      [6, 6],
    ],
  );
  assert.equal(edits.move(graph, { "n:load": [0, 0], "g:g1": [0, 0], "r:r1": [1, 1] }), graph);
  assert.deepEqual(edits.resize(graph, "g:g1", [50, 60], [-5, -5]).groups[0]!.rect, [-5, -5, 50, 60]);
  assert.deepEqual(edits.resize(graph, "n:load", [50, 60]).nodes.load!.size, [50, 60]);
});

test("colour, collapse and mode are left out of the file where they are ordinary", () => {
  const graph = toyGraph();
  let changed = edits.setMode(
    edits.setCollapsed(edits.setColor(graph, ["n:load"], "red"), ["load"], true),
    ["load"],
    "bypass",
  );
  assert.deepEqual(toFile(changed).layout?.load, { at: [0, 0], collapsed: true, color: "red" });
  changed = edits.setMode(
    edits.setCollapsed(edits.setColor(changed, ["n:load"], ""), ["load"], false),
    ["load"],
    "run",
  );
  assert.equal(JSON.stringify(toFile(changed)), JSON.stringify(toFile(graph)));
});

test("what changes nothing gives the graph itself back", () => {
  const graph = toyGraph();
  assert.equal(edits.setTitle(graph, "load", ""), graph);
  assert.equal(edits.setTitle(graph, "nobody", "x"), graph);
  assert.equal(edits.setMode(graph, ["load"], "run"), graph);
  assert.equal(edits.setCollapsed(graph, ["load"], false), graph);
  assert.equal(edits.disconnect(graph, "load.source"), graph);
  assert.equal(edits.setOutput(graph, "result", "second.latents"), graph);
  assert.equal(edits.setOutput(graph, "nothing", null), graph);
  assert.equal(edits.hideParam(graph, "nothing"), graph);
  assert.equal(edits.setColor(graph, ["n:load", "g:nothing"], ""), graph);
  assert.equal(edits.setGroup(graph, "nothing", { title: "x" }), graph);
  assert.equal(edits.describe(graph, { name: graph.name }), graph);
});
