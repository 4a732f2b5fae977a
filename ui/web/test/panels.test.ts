import assert from "node:assert/strict";
import { test } from "node:test";
import { EMPTY_CATALOG } from "../src/graph/catalog";
import { addNode, setInput } from "../src/graph/edits";
import { sourceOf } from "../src/graph/values";
import { lanesOf } from "../src/panels/lanes/timeline";
import { found, foldersOf } from "../src/panels/library/folders";
import { devicesFor } from "../src/panels/plan/planDevices";
import { planNodeOf, withPlan } from "../src/panels/plan/planNode";
import { numRanks, ONE_RANK, parsePlan, planText, withDegree } from "../src/panels/plan/planText";
import { Newest } from "../src/panels/newest";
import { outcomeText } from "../src/panels/queue/outcome";
import { beforeOf } from "../src/panels/queue/queueOrder";
import { formatDuration } from "../src/parts/format";
import { sweepables } from "../src/panels/runs/sweepables";
import { numValues, sweepText } from "../src/panels/runs/sweepText";
import { countSweep, seedOf } from "../src/panels/runs/workflowSeed";
import type { Catalog, Device, NodeState, Run, Workflow } from "../src/types";
import { input, shipped, spec, toyGraph, TOYS } from "./graphs";
import { liveRun } from "./live";

const GPU = { title: "GPU", total_bytes: 100, used_bytes: 10, load: null };
const DEVICES: Device[] = [
  { ...GPU, name: "cuda:0" },
  { ...GPU, name: "cuda:1" },
  { ...GPU, name: "cpu" },
];

test("a plan is written as the server reads it, and read back", () => {
  const plan = parsePlan("cfg=2, ulysses=4,weights=8,text=sharded");
  assert.deepEqual(plan, { ...ONE_RANK, cfg: 2, ulysses: 4, weights: 8, text: "sharded" });
  assert.equal(planText(plan), "cfg=2,ulysses=4,weights=8,text=sharded");
  assert.equal(planText(ONE_RANK), "ulysses=1");
  assert.equal(numRanks(plan), 8);
});

test("ring and allgather exclude each other", () => {
  const ring = withDegree(parsePlan("ulysses=2,allgather=2"), "ring", 3);
  assert.equal(planText(ring), "ulysses=2,ring=3");
  assert.equal(planText(withDegree(ring, "allgather", 2)), "ulysses=2,allgather=2");
});

test("ranks get accelerators while there are enough, else processes on the CPU", () => {
  assert.equal(devicesFor(2, DEVICES), "cuda:0,cuda:1");
  assert.equal(devicesFor(4, DEVICES.slice(2)), "cpu*4");
});

const PLANNED: Catalog = {
  ...TOYS,
  nodes: [
    ...TOYS.nodes,
    spec("LoomParallelPlan", [input("model", "Model"), input("devices", "string"), input("plan", "string")], {
      model: "Model",
    }),
  ],
};

test("a plan goes behind the model, for all that use it; a second one changes the node that is there", () => {
  const chosen = { node: "second", plan: "ulysses=2", devices: "cpu*2" };
  const graph = withPlan(toyGraph(), PLANNED, chosen);
  assert.equal(sourceOf(graph, "first.model"), "parallel_plan.model");
  assert.equal(sourceOf(graph, "second.model"), "parallel_plan.model");
  assert.equal(sourceOf(graph, "parallel_plan.model"), "load.model");
  const again = withPlan(graph, PLANNED, { ...chosen, plan: "ring=2" });
  assert.equal(again.nodes.parallel_plan?.inputs.plan, "ring=2");
  assert.equal(Object.keys(again.nodes).length, Object.keys(graph.nodes).length);
  assert.equal(planNodeOf(again, "first"), "parallel_plan");
});

test("a plan that a param sets is changed there", () => {
  const graph = shipped("several_devices.json");
  const node = planNodeOf(graph, "denoise");
  const changed = withPlan(graph, PLANNED, { node: "denoise", plan: "ulysses=3", devices: "cpu*3" });
  assert.deepEqual(changed.nodes[node], graph.nodes[node]);
  assert.deepEqual([changed.params.plan?.default, changed.params.devices?.default], ["ulysses=3", "cpu*3"]);
});

test("a node that has a plan of its own gets it itself", () => {
  const whole = spec("LoomRunPipeline", [input("devices", "string"), input("plan", "string")], { image: "Image" });
  const catalog: Catalog = { ...PLANNED, nodes: [...PLANNED.nodes, whole] };
  const graph = addNode(toyGraph(), { name: "run", spec: whole, at: [0, 0] });
  const changed = withPlan(graph, catalog, { node: "run", plan: "cfg=2", devices: "cpu*2" });
  assert.deepEqual(changed.nodes.run?.inputs, { plan: "cfg=2", devices: "cpu*2" });
  assert.equal(Object.keys(changed.nodes).length, Object.keys(graph.nodes).length);
});

test("where no plan can be placed the graph stays as it is", () => {
  const graph = toyGraph();
  assert.equal(withPlan(graph, EMPTY_CATALOG, { node: "first", plan: "ring=2", devices: "" }), graph);
  assert.equal(withPlan(graph, PLANNED, { node: "gone", plan: "ring=2", devices: "" }), graph);
});

test("a sweep is a range, a list, or a value per line", () => {
  assert.equal(sweepText({ name: "seed", type: "int", text: " 1..4 " }), "seed=1..4");
  assert.equal(sweepText({ name: "prompt", type: "string", text: "a, b\n c \n" }), 'prompt=["a, b","c"]');
  assert.equal(sweepText({ name: "steps", type: "int", text: "4\n8" }), "steps=[4,8]");
  assert.equal(numValues({ name: "seed", type: "int", text: "1..4" }), 4);
  assert.equal(numValues({ name: "seed", type: "int", text: "4..1" }), 0);
  assert.equal(numValues({ name: "seed", type: "int", text: "1..8:3" }), 3);
  assert.equal(numValues({ name: "scale", type: "float", text: "0.1..0.3:0.1" }), 3);
  assert.equal(numValues({ name: "prompt", type: "string", text: "1..4" }), 1);
  assert.equal(numValues({ name: "steps", type: "int", text: "10,20,30" }), 3);
  assert.equal(numValues({ name: "prompt", type: "string", text: '["a, b", "c"]' }), 2);
  assert.equal(numValues({ name: "prompt", type: "string", text: "" }), 0);
});

test("what can be swept: params, and plain inputs that no wire and no param sets", () => {
  const names = sweepables(setInput(toyGraph(), "first", "steps", { from: "whole.int" }), TOYS).map(({ name }) => name);
  assert.ok(names.includes("second.steps") && names.includes("load.source"));
  assert.ok(!names.includes("first.steps") && !names.includes("first.model"));
});

test("the seed that counts up is the param that people set", () => {
  const seeds = {
    ...TOYS,
    nodes: [...TOYS.nodes, spec("LoomDenoise", [input("seed", "int", { widget: "seed", default: 0 })], {})],
  };
  const seed = seedOf(shipped("first_picture.json"), seeds);
  assert.deepEqual(seed, { name: "seed", value: 7n });
  assert.equal(countSweep({ name: "denoise.seed", value: 7n }, 4), "denoise.seed=7..10");
  assert.equal(seedOf(toyGraph(), TOYS), null);
});

test("a run that is dragged down goes behind the one it is dropped on, one dragged up in front of it", () => {
  const waiting = ["a", "b", "c"];
  assert.equal(beforeOf(waiting, "a", "b"), "c");
  assert.equal(beforeOf(waiting, "a", "c"), null);
  assert.equal(beforeOf(waiting, "c", "a"), "a");
});

test("the library is found by folder and by every word", () => {
  const shelf = (name: string, folder: string, updated: number) =>
    ({
      id: name,
      name,
      folder,
      summary: "for tests",
      updated,
      version: 1,
      num_nodes: 1,
      has_thumb: false,
    }) satisfies Workflow;
  const all = [shelf("red cat", "cats", 1), shelf("red dog", "", 2), shelf("blue cat", "cats", 3)];
  assert.deepEqual(foldersOf(all), ["cats"]);
  assert.deepEqual(
    found(all, null, "red TESTS").map(({ name }) => name),
    ["red dog", "red cat"],
  );
  const byServer = new Set([all[2]!.id]); // by the end of a long description
  assert.deepEqual(
    found(all, null, "red tests dog", byServer).map(({ name }) => name),
    ["blue cat", "red dog"],
  );
  assert.deepEqual(
    found(all, "cats", "").map(({ name }) => name),
    ["blue cat", "red cat"],
  );
});

function state(more: Partial<NodeState>): NodeState {
  const counts = { done: 0, total: 0, seconds: 0, phase: "", message: "", code: "", preview: 0 };
  const times = { left_s: null, run_left_s: null, left_at: 0, foreseen: null, took: null, outlook: "" };
  const made = { cached: "" as const, plan: "", ranks: [], files: [], sounds: [] };
  return { state: "done", started: 0, ...counts, ...times, ...made, ...more };
}

function runOf(nodes: Record<string, NodeState>, plan = ""): Run {
  return liveRun("r", { plan, nodes });
}

test("a run without ranks has one lane, with a segment for each node that used the device", () => {
  const nodes = {
    first: state({ started: 101, seconds: 2 }),
    second: state({ state: "running", started: 103, done: 3, total: 8 }),
    load: state({ started: 100, seconds: 1 }),
  };
  const lanes = lanesOf({ run: runOf(nodes), devices: DEVICES, now: 110, usesDevice: (node) => node !== "load" });
  assert.equal(lanes.length, 1);
  assert.equal(lanes[0]!.device, "cuda:0");
  assert.deepEqual(
    lanes[0]!.segments.map(({ node, from, to, isOpen }) => [node, from, to, isOpen]),
    [
      ["first", 1, 3, false],
      ["second", 3, 10, true],
    ],
  );
});

test("each rank has a lane, with what it sent; while work is under way the plan tells how many there are", () => {
  const rank = {
    title: "",
    machine: "",
    seconds: 2,
    exchanges: 5,
    peak_memory_bytes: 70,
    idle_bytes: 0,
    known: "",
    kernels: [],
  };
  const ranks = [
    { ...rank, rank: 0, device: "cuda:0", sent_bytes: 400 },
    { ...rank, rank: 1, device: "cuda:1", sent_bytes: 800 },
  ];
  const nodes = {
    first: state({ started: 100, seconds: 2, ranks }),
    second: state({ state: "running", started: 102 }),
  };
  const run = runOf(nodes, "cfg=2,ulysses=2");
  const lanes = lanesOf({ run, devices: DEVICES, now: 103, usesDevice: () => true });
  assert.deepEqual(
    lanes.map((lane) => lane.segments.length),
    [2, 2, 1, 1],
  );
  assert.deepEqual(
    [lanes[1]!.sentBytes, lanes[1]!.exchanges, lanes[1]!.bytesPerSecond, lanes[1]!.peakBytes],
    [800, 5, 400, 70],
  );
  assert.equal(lanes[1]!.device, "cuda:1");
});

test("what was drawn of a rank stays when the run is cancelled before its ranks have told their work", () => {
  const nodes = { draw: state({ state: "cancelled", started: 100, seconds: 3, plan: "ulysses=2" }) };
  const lanes = lanesOf({ run: runOf(nodes, "ulysses=2"), devices: DEVICES, now: 104, usesDevice: () => true });
  assert.deepEqual(
    lanes.map(({ segments }) => segments.map(({ to }) => to)),
    [[3], [3]],
  );
});

test("of questions in a row the newest is heard, and the one before is ended", async () => {
  const newest = new Newest<string>();
  const heard: unknown[] = [];
  const signals: AbortSignal[] = [];
  const answers: ((text: string) => void)[] = [];
  for (let number = 0; number < 2; number++) {
    newest.ask(
      (signal) => {
        signals.push(signal);
        return new Promise((resolve) => answers.push(resolve));
      },
      (told) => heard.push(told),
    );
  }
  assert.deepEqual(
    signals.map(({ aborted }) => aborted),
    [true, false],
  );
  answers[1]!("new");
  answers[0]!("old");
  await new Promise(setImmediate);
  newest.ask(
    () => Promise.reject(new Error("no")),
    (told) => heard.push(told),
  );
  await new Promise(setImmediate);
  assert.deepEqual(heard, [{ value: "new" }, { error: "no" }]);
});

test("times are told in three digits of a unit that fits", () => {
  const times = [0.000000693, 0.0042, 0.9996, 12.345, 200, 0];
  assert.deepEqual(times.map(formatDuration), ["0.693 µs", "4.2 ms", "1 s", "12.3 s", "3 min 20 s", "0 s"]);
});

test("what a run was predicted to take stands beside what it took, of the parts that were measured", () => {
  const foreseen = { text_s: 1, step_s: 2, steps: 3, decode_s: 4 };
  const took = { steps: 3, step_s: 2.2, steps_s: 9, text_s: null, decode_s: 5 };
  const nodes = { denoise: { foreseen, took }, save: { foreseen: null, took: null } };
  assert.equal(outcomeText(nodes as unknown as Record<string, NodeState>), "predicted 10 s, took 11.6 s (+16 %)");
  assert.equal(outcomeText({}), "");
  const hours = { denoise: { foreseen, took: { ...took, step_s: 200, is_busy: true } } };
  const told = outcomeText(hours as unknown as Record<string, NodeState>);
  assert.equal(told, "predicted 10 s, took 10 min 5 s (the machine was busy)");
});
