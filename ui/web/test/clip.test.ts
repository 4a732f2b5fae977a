import assert from "node:assert/strict";
import { test } from "node:test";
import { addGroup, addNote, addReroute, exposeParam } from "../src/graph/edits";
import { clipText, copy, paste, readClip, type Clip } from "../src/graph/file/clip";
import { putClip, takeClip } from "../src/graph/file/clipboard";
import { emptyGraph } from "../src/graph/file/workflowFile";
import { input, toyGraph } from "./graphs";

test("copied nodes are pasted under fresh names, wired among themselves and to the sources that they had", () => {
  const graph = addReroute(toyGraph(), { id: "r1", input: "second.latents", at: [450, 50] });
  const { graph: pasted, keys } = paste(graph, copy(graph, ["n:first", "n:second"])!, [1000, 1000]);
  assert.deepEqual(keys, ["n:first_2", "n:second_2"]);
  assert.deepEqual(pasted.nodes.second_2, {
    ...graph.nodes.second,
    at: [1300, 1000],
    inputs: { model: { from: "load.model" }, latents: { from: "first_2.latents" }, steps: 7 },
  });
  assert.deepEqual(pasted.reroutes.r1_2, { at: [1150, 1050], from: "first_2.latents" });
  assert.equal(pasted.via["second_2.latents"], "r1_2");
});

test("in another workflow a wire stays only where a node of that name and type is", () => {
  const clip = copy(toyGraph(), ["n:first"])!;
  const empty = paste(emptyGraph("other"), clip, [0, 0]).graph;
  assert.deepEqual(empty.nodes.first!.inputs, {});
  const other = emptyGraph("other");
  other.nodes.load = { ...toyGraph().nodes.pick! };
  assert.deepEqual(paste(other, clip, [0, 0]).graph.nodes.first!.inputs, {});
  other.nodes.load = { ...toyGraph().nodes.load! };
  assert.deepEqual(paste(other, clip, [0, 0]).graph.nodes.first!.inputs, { model: { from: "load.model" } });
});

test("a pasted node never takes the name of a source that is missing, and dangling wires are dropped", () => {
  const graph = toyGraph();
  graph.nodes.work_2 = { ...graph.nodes.first! };
  graph.nodes.work = {
    ...graph.nodes.first!,
    inputs: { latents: { from: "work_2.latents" }, model: { from: "gone.x" } },
  };
  const other = { ...emptyGraph("other"), nodes: { work: graph.nodes.first! } };
  const { graph: pasted, keys } = paste(other, copy(graph, ["n:work"])!, [0, 0]);
  assert.deepEqual([keys, pasted.nodes.work_3!.inputs], [["n:work_3"], {}]);
});

test("params come along, and one that is there already stays as it is", () => {
  const graph = exposeParam(toyGraph(), "second", { spec: input("steps", "int"), name: "steps" });
  const clip = copy(graph, ["n:second"])!;
  assert.deepEqual(paste(emptyGraph("other"), clip, [0, 0]).graph.params, { steps: { type: "int", default: 7 } });
  const mine = { ...emptyGraph("other"), params: { steps: { type: "int" as const, default: 1 } } };
  assert.equal(paste(mine, clip, [0, 0]).graph.params.steps!.default, 1);
});

test("groups and notes are copied too; nothing gives nothing", () => {
  let graph = addGroup(toyGraph(), { id: "g1", title: "G", color: "", rect: [10, 10, 50, 50] });
  graph = addNote(graph, { id: "c1", text: "hi", color: "", rect: [20, 30, 50, 50] });
  const { graph: pasted, keys } = paste(graph, copy(graph, ["g:g1", "c:c1"])!, [0, 0]);
  assert.deepEqual(keys, ["g:g1_2", "c:c1_2"]);
  assert.deepEqual(
    [pasted.groups[1]!.rect, pasted.notes[1]!.rect],
    [
      [0, 0, 50, 50],
      [10, 20, 50, 50],
    ],
  );
  assert.equal(copy(graph, ["e:second.model", "n:nobody"]), null);
});

test("a copy goes through text, and other text is no copy", () => {
  const clip = copy(toyGraph(), ["n:first", "n:second"])!;
  const read = readClip(clipText(clip))!;
  assert.deepEqual(read.graph.nodes, clip.graph.nodes);
  assert.deepEqual(read.sources, { load: "Load" });
  const hostile = [
    "",
    "hello",
    "{",
    "latentloom_clip",
    '{"latentloom_clip":5}',
    '{"latentloom_clip":{"nodes":{"a":1}}}',
  ];
  for (const text of hostile) assert.equal(readClip(text), null, text);
  assert.equal(readClip(clipText(clip) + " ".repeat(5_000_000)), null);
});

test("what was copied last is pasted, also where the system's clipboard has not taken it", async () => {
  const [first, second] = [["n:first"], ["n:second"]].map((keys) => copy(toyGraph(), keys)!) as [Clip, Clip];
  let settle: { taken: () => void; refused: () => void } | undefined;
  const written: string[] = [];
  const clipboard = {
    writeText: (text: string) =>
      new Promise<void>((resolve, reject) => {
        settle = { taken: () => resolve(void written.push(text)), refused: () => reject(new Error("refused")) };
      }),
    readText: async () => written.at(-1) ?? "",
  };
  Object.defineProperty(globalThis, "navigator", { value: { clipboard }, configurable: true });
  const old = clipText(first);
  const put = putClip(second);
  assert.equal(await takeClip(old), second); // it is on its way
  settle?.taken();
  await put;
  assert.deepEqual((await takeClip(old))?.graph, first.graph); // copied elsewhere since
  assert.deepEqual((await takeClip())?.graph, second.graph);
  assert.equal(await takeClip("a text"), null);
  const refused = putClip(second);
  settle?.refused();
  await refused;
  assert.equal(await takeClip(old), second);
  assert.equal(await takeClip("a text"), second);
});
