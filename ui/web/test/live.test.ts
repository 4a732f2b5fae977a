import assert from "node:assert/strict";
import { test } from "node:test";
import { announce } from "../src/store/announce";
import { applyMessage, EMPTY_LIVE, endedRuns, newestActive, type LiveState } from "../src/store/live_state";
import { dismissToast, pageStore } from "../src/store/page";
import type { LiveMessage, NodeState, Run } from "../src/types";

const node = (state: NodeState["state"], done = 0): NodeState => ({
  state,
  started: 0,
  done,
  total: 8,
  seconds: 0,
  left_s: null,
  phase: "",
  message: "",
  cached: "",
  preview: 0,
  plan: "",
  ranks: [],
  files: [],
});
const message = (runs: Record<string, Partial<Run>>, more: Partial<LiveMessage> = {}): LiveMessage => ({
  seq: 1,
  full: false,
  t: 0,
  server: "s1",
  runs,
  ...more,
});
const full = (runs: Record<string, Partial<Run>>): LiveState => applyMessage(EMPTY_LIVE, message(runs, { full: true }));

test("a delta changes what it names and leaves the very objects of the rest", () => {
  const before = full({
    a: { state: "running", nodes: { x: node("done"), y: node("running", 1) } },
    b: { state: "waiting" },
  });
  const after = applyMessage(before, message({ a: { done: 2, nodes: { y: node("running", 2) } } }));
  assert.equal(after.runs.a!.nodes.y!.done, 2);
  assert.equal(after.runs.a!.nodes.x, before.runs.a!.nodes.x);
  assert.equal(after.runs.b, before.runs.b);
  assert.equal(after.runs.a!.state, "running");
});

test("a delta without nodes keeps the run's nodes as they are", () => {
  const before = full({ a: { state: "running", nodes: { x: node("done") } } });
  assert.equal(applyMessage(before, message({ a: { seconds: 3 } })).runs.a!.nodes, before.runs.a!.nodes);
});

test("a message about nothing but devices leaves runs, queue and counters alone", () => {
  const before = full({ a: {} });
  const after = applyMessage(before, message({}, { devices: [] }));
  assert.equal(after.runs, before.runs);
  assert.equal(after.queue, before.queue);
  assert.equal(after.library, before.library);
});

test("the least that a message was behind tells how far the browser's clock is ahead", () => {
  const first = applyMessage(EMPTY_LIVE, message({}, { t: 1000 }), 61_000);
  const second = applyMessage(first, message({}, { t: 62_000 }), 65_000);
  assert.deepEqual([first.aheadMs, second.aheadMs], [60_000, 3000]);
  assert.equal(applyMessage(second, message({}, { t: 70_000 }), 75_000).aheadMs, 3000);
});

test("a full message replaces all runs; removed ones go", () => {
  const before = full({ a: {}, b: {} });
  assert.deepEqual(Object.keys(applyMessage(before, message({ c: {} }, { full: true })).runs), ["c"]);
  assert.deepEqual(Object.keys(applyMessage(before, message({}, { removed: ["a", "zz"] })).runs), ["b"]);
});

test("a run that the page never heard of is whole at once", () => {
  const run = full({ a: { state: "waiting", name: "first" } }).runs.a!;
  assert.deepEqual([run.id, run.nodes, run.total, run.error], ["a", {}, 0, ""]);
});

test("the run to show first is the one that runs, else one that waits, else none", () => {
  assert.equal(
    newestActive(full({ a: { state: "done" }, b: { state: "waiting" }, c: { state: "running" } }).runs),
    "c",
  );
  assert.equal(newestActive(full({ a: { state: "done" }, b: { state: "waiting" } }).runs), "b");
  assert.equal(newestActive(full({ a: { state: "failed" } }).runs), null);
});

test("a batch is told once, when its last run is done; a failure is told at once", () => {
  pageStore.setState({ toasts: [] });
  const texts = (): string[] => pageStore.getState().toasts.map(({ text }) => text);
  const runs = (last: Run["state"]): Record<string, Run> =>
    full({
      a: { name: "x", batch: "b", state: "done" },
      b: { name: "x", batch: "b", state: "failed", error: "no memory" },
      c: { name: "x", batch: "b", state: last },
      d: { name: "alone", batch: "other", state: "done" },
    }).runs;
  for (const id of ["a", "b"]) announce(runs("running")[id]!, runs("running"));
  assert.deepEqual(texts(), ["x failed: no memory"]);
  for (const id of ["c", "d"]) announce(runs("done")[id]!, runs("done"));
  assert.deepEqual(texts().slice(1), ["x: 2 runs are done.", "alone is done."]);
  pageStore.getState().toasts.forEach(({ id }) => dismissToast(id));
});

test("runs that ended since are told once; those that were over before are not", () => {
  const before = full({ a: { state: "running" }, b: { state: "done" } });
  const after = applyMessage(before, message({ a: { state: "failed" }, c: { state: "done" } }));
  assert.deepEqual(
    endedRuns(before, after).map((run) => run.id),
    ["a"],
  );
  assert.deepEqual(endedRuns(after, after), []);
});
