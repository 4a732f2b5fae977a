import assert from "node:assert/strict";
import { test } from "node:test";
import { specOf } from "../src/graph/catalog";
import * as edits from "../src/graph/edits";
import { rootOf } from "../src/graph/edits/reroutes";
import { copy } from "../src/graph/file/clip";
import { fromFile, toFile } from "../src/graph/file/workflowFile";
import { newHistory, record, redo, undo } from "../src/graph/history";
import { hasItem, itemKey } from "../src/graph/items";
import { freshName } from "../src/graph/names";
import { isLink, isParamRef, sourceOf } from "../src/graph/values";
import { canConnect } from "../src/graph/wireTypes";
import type { EditorGraph, Mode, Point } from "../src/types";
import { input, shippedFiles, TOYS, toyGraph } from "./graphs";

/** Numbers from 0 to 1 from a seed (mulberry32). */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

class Hand {
  readonly number: () => number;

  constructor(seed: number) {
    this.number = generator(seed);
  }

  below(count: number): number {
    return Math.floor(this.number() * count);
  }

  pick<T>(items: readonly T[]): T | undefined {
    return items[this.below(items.length)];
  }

  point(): Point {
    return [this.below(2000), this.below(1000)];
  }
}

/** The inputs that the catalog knows, and those that the graph uses. */
const inputs = (graph: EditorGraph): string[] =>
  Object.entries(graph.nodes).flatMap(([name, node]) => {
    const known = specOf(TOYS, node.type)?.inputs.map((input) => input.name) ?? [];
    return [...new Set([...known, ...Object.keys(node.inputs)])].map((socket) => `${name}.${socket}`);
  });
const outputs = (graph: EditorGraph): string[] => {
  const known = Object.entries(graph.nodes).flatMap(([name, node]) =>
    (specOf(TOYS, node.type)?.outputs ?? []).map((output) => `${name}.${output.name}`),
  );
  const used = inputs(graph).flatMap((input) => sourceOf(graph, input) ?? []);
  return [...new Set([...known, ...used])];
};
const keys = (graph: EditorGraph): string[] => [
  ...Object.keys(graph.nodes).map((name) => itemKey("node", name)),
  ...graph.groups.map((group) => itemKey("group", group.id)),
  ...graph.notes.map((note) => itemKey("note", note.id)),
  ...Object.keys(graph.reroutes).map((id) => itemKey("reroute", id)),
  ...inputs(graph).map((input) => itemKey("wire", input)),
];
const parts = (target = ""): [string, string] => target.split(".") as [string, string];
const fresh = (graph: EditorGraph, stem: string): string =>
  freshName(stem, (name) => name in graph.nodes || name in graph.params || name in graph.reroutes);

const sizeOf = (): Point => [270, 120];
const groups = (graph: EditorGraph): string[] => graph.groups.map(({ id }) => itemKey("group", id));
/** What a group can hold. */
const members = (graph: EditorGraph): string[] => keys(graph).filter((key) => /^[ncr]:/.test(key));

type RandomEdit = (graph: EditorGraph, hand: Hand) => EditorGraph;

/** One of each kind; a test below asks that none is missing. */
const RANDOM: Record<keyof typeof edits, RandomEdit> = {
  addNode: (graph, hand) =>
    edits.addNode(graph, { name: fresh(graph, "n"), spec: hand.pick(TOYS.nodes)!, at: hand.point() }),
  rename: (graph, hand) => edits.rename(graph, hand.pick(Object.keys(graph.nodes)) ?? "", fresh(graph, "renamed")),
  removeItems: (graph, hand) => edits.removeItems(graph, [hand.pick(keys(graph)) ?? "", hand.pick(keys(graph)) ?? ""]),
  connect: (graph, hand) => {
    const ways = [...outputs(graph), ...Object.keys(graph.reroutes).map((id) => `$${id}`)];
    const [from, to] = [hand.pick(ways) ?? "", hand.pick(inputs(graph)) ?? ""];
    return canConnect(graph, TOYS, from, to) ? graph : edits.connect(graph, from, to);
  },
  disconnect: (graph, hand) => edits.disconnect(graph, hand.pick(inputs(graph)) ?? ""),
  setInput: (graph, hand) => {
    const value = hand.pick([1, "text", null, undefined, { value: { from: "x" } }, [1, 2]]);
    return edits.setInput(graph, ...parts(hand.pick(inputs(graph))), value);
  },
  giveValue: (graph, hand) => edits.giveValue(graph, ...parts(hand.pick(inputs(graph))), hand.pick([1, "text", ""])!),
  setTitle: (graph, hand) => edits.setTitle(graph, hand.pick(Object.keys(graph.nodes)) ?? "", `T${hand.below(99)}`),
  setSeedNew: (graph, hand) => edits.setSeedNew(graph, hand.pick(inputs(graph)) ?? "", hand.number() < 0.5),
  withMovingSeeds: (graph) => edits.withMovingSeeds(graph, TOYS),
  setMode: (graph, hand) =>
    edits.setMode(graph, [hand.pick(Object.keys(graph.nodes)) ?? ""], hand.pick<Mode>(["run", "mute", "bypass"])!),
  setCollapsed: (graph, hand) =>
    edits.setCollapsed(graph, [hand.pick(Object.keys(graph.nodes)) ?? ""], hand.number() < 0.5),
  setShown: (graph, hand) => edits.setShown(graph, hand.pick(Object.keys(graph.nodes)) ?? "", hand.number() < 0.5),
  setColor: (graph, hand) => edits.setColor(graph, [hand.pick(keys(graph)) ?? ""], hand.pick(["", "red", "blue"])!),
  setOutput: (graph, hand) =>
    edits.setOutput(
      graph,
      hand.pick(["result", "more"])!,
      hand.pick([null, hand.pick(outputs(graph)) ?? null]) ?? null,
    ),
  move: (graph, hand) => edits.move(graph, { [hand.pick(keys(graph)) ?? ""]: hand.point(), "n:second": hand.point() }),
  resize: (graph, hand) => edits.resize(graph, hand.pick(keys(graph)) ?? "", [100 + hand.below(300), 100]),
  exposeParam: (graph, hand) => {
    const [node, socket] = parts(hand.pick(inputs(graph)));
    return edits.exposeParam(graph, node, { spec: input(socket, "string"), name: fresh(graph, "p") });
  },
  hideParam: (graph, hand) => edits.hideParam(graph, hand.pick(Object.keys(graph.params)) ?? ""),
  setParam: (graph, hand) =>
    edits.setParam(graph, hand.pick(Object.keys(graph.params)) ?? "", { help: `${hand.below(9)}` }),
  renameParam: (graph, hand) => edits.renameParam(graph, hand.pick(Object.keys(graph.params)) ?? "", fresh(graph, "q")),
  addGroup: (graph, hand) =>
    edits.addGroup(graph, { id: `g${hand.below(1e9)}`, title: "", color: "", rect: [...hand.point(), 300, 200] }),
  setGroup: (graph, hand) => edits.setGroup(graph, hand.pick(graph.groups)?.id ?? "", { title: `G${hand.below(99)}` }),
  addNote: (graph, hand) =>
    edits.addNote(graph, { id: `c${hand.below(1e9)}`, text: "", color: "", rect: [...hand.point(), 300, 200] }),
  setNote: (graph, hand) => edits.setNote(graph, hand.pick(graph.notes)?.id ?? "", { text: `C${hand.below(99)}` }),
  addReroute: (graph, hand) =>
    edits.addReroute(graph, { id: fresh(graph, "r"), input: hand.pick(inputs(graph)) ?? "", at: hand.point() }),
  moveReroute: (graph, hand) => edits.moveReroute(graph, hand.pick(Object.keys(graph.reroutes)) ?? "", hand.point()),
  removeReroute: (graph, hand) => edits.removeReroute(graph, hand.pick(Object.keys(graph.reroutes)) ?? ""),
  paste: (graph, hand) => {
    const clip = copy(graph, [hand.pick(keys(graph)) ?? "", hand.pick(keys(graph)) ?? ""]);
    return clip ? edits.paste(graph, clip, hand.point()).graph : graph;
  },
  arrange: (graph) => edits.arrange(graph),
  align: (graph, hand) => {
    const how = hand.pick(["left", "right", "top", "bottom", "column", "row"] as const)!;
    return edits.align(graph, [...groups(graph), ...members(graph)].slice(0, hand.below(5)), how, sizeOf);
  },
  distribute: (graph, hand) => edits.distribute(graph, members(graph), hand.pick(["across", "down"] as const)!, sizeOf),
  arrangeGrouped: (graph) => edits.arrangeGrouped(graph, sizeOf),
  withMembers: (graph) => edits.withMembers(graph, sizeOf),
  setMembers: (graph, hand) =>
    edits.setMembers(graph, members(graph).slice(0, hand.below(3)), hand.pick(graph.groups)?.id ?? null),
  moveGrouped: (graph, hand) =>
    edits.moveGrouped(graph, { [hand.pick([...keys(graph), ...members(graph)]) ?? ""]: hand.point() }, sizeOf),
  fitGroups: (graph) => edits.fitGroups(graph, sizeOf),
  growGroups: (graph) => edits.growGroups(graph, sizeOf),
  fold: (graph, hand) => {
    const names = Object.keys(graph.nodes);
    return edits.fold(graph, TOYS, [hand.pick(names) ?? "", hand.pick(names) ?? ""])?.graph ?? graph;
  },
  unfold: (graph, hand) => edits.unfold(graph, hand.pick(Object.keys(graph.nodes)) ?? "")?.graph ?? graph,
  setEach: (graph, hand) =>
    edits.setEach(graph, ...parts(hand.pick(inputs(graph))), hand.pick([null, [1, 2], { lines: "a\nb" }]) ?? null),
  addBehind: (graph, hand) => {
    const [node, gives] = parts(hand.pick(outputs(graph)));
    const spec = hand.pick(TOYS.nodes)!;
    return edits.addBehind(graph, { node, spec, name: fresh(graph, "b"), at: hand.point(), takes: "latents", gives });
  },
  addWord: (graph, hand) => edits.addWord(graph, [hand.pick(inputs(graph)) ?? ""], `word ${hand.below(9)}`),
  describe: (graph, hand) => edits.describe(graph, { description: `D${hand.below(99)}` }),
};

/** What holds for every graph that edits make. */
function isSound(graph: EditorGraph): void {
  for (const [name, node] of Object.entries(graph.nodes)) {
    for (const [socket, value] of Object.entries(node.inputs)) {
      if (isLink(value)) assert.ok(value.from.split(".")[0]! in graph.nodes, `${name}.${socket} comes from nowhere`);
      if (isParamRef(value)) assert.ok(value.param in graph.params, `${name}.${socket} has no param`);
    }
  }
  for (const { from } of Object.values(graph.outputs)) assert.ok(from.split(".")[0]! in graph.nodes);
  for (const [input, id] of Object.entries(graph.via)) assert.equal(rootOf(graph, `$${id}`), sourceOf(graph, input));
  const held = graph.groups.flatMap((group) => group.members ?? []);
  assert.equal(new Set(held).size, held.length, "nothing is in two groups");
  for (const key of held) assert.ok(hasItem(graph, key), `${key} is held and not there`);
  assert.deepEqual(fromFile(toFile(graph)), graph, "the file tells all of it");
}

for (const [name, start, seeds] of [
  ["the toy graph", toyGraph(), 20],
  ...shippedFiles().map(([file, graph]) => [file, fromFile(graph), 2]),
] as [string, EditorGraph, number][]) {
  test(`50 random edits of ${name} are sound, and undo and redo go over all of them, with ${seeds} seeds`, () => {
    const before = structuredClone(start);
    for (let seed = 1; seed <= seeds; seed++) {
      const hand = new Hand(seed);
      let history = newHistory(start);
      while (history.past.length < 50) {
        const [label, change] = hand.pick(Object.entries(RANDOM))!;
        history = record(history, change(history.present, hand), label);
        isSound(history.present);
      }
      const end = structuredClone(history.present);
      while (history.past.length) history = undo(history);
      assert.equal(history.present, start, `seed ${seed}`);
      assert.deepEqual(history.present, before, `seed ${seed}: an edit changed a graph in place`);
      while (history.future.length) history = redo(history);
      assert.deepEqual(history.present, end, `seed ${seed}`);
    }
  });
}

test("every kind of edit is among the random ones", () => {
  assert.deepEqual(Object.keys(RANDOM).sort(), Object.keys(edits).sort());
});
