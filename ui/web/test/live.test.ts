import assert from "node:assert/strict";
import "./browser";
import { test } from "node:test";
import { move, setMode } from "../src/graph/edits";
import { formatLeft } from "../src/parts/format";
import { announce, announceNew } from "../src/store/announce";
import { changedNodes } from "../src/store/changedSinceRun";
import {
  applyMessage,
  EMPTY_LIVE,
  endedRuns,
  isStarting,
  newestActive,
  newRuns,
  type LiveState,
} from "../src/store/liveState";
import { dismissToast, pageStore } from "../src/store/page";
import { hold, holding } from "../src/holding";
import { titleOf } from "../src/store/tabTitle";
import { leftAt, percentOf } from "../src/store/left";
import type { NodeState, Run } from "../src/types";
import { toyGraph } from "./graphs";
import { liveMessage, liveRun } from "./live";

const node = (state: NodeState["state"], done = 0): NodeState => ({
  state,
  started: 0,
  done,
  total: 8,
  seconds: 0,
  left_s: null,
  run_left_s: null,
  left_at: 0,
  phase: "",
  message: "",
  code: "",
  cached: "",
  preview: 0,
  plan: "",
  ranks: [],
  foreseen: null,
  took: null,
  outlook: "",
  files: [],
  sounds: [],
});
const full = (runs: Record<string, Partial<Run>>): LiveState =>
  applyMessage(EMPTY_LIVE, liveMessage(runs, { full: true }));

test("a message changes the runs and nodes that it names and leaves the very objects of the rest", () => {
  const before = full({
    a: { state: "running", nodes: { x: node("done"), y: node("running", 1) } },
    b: { state: "waiting" },
  });
  const after = applyMessage(before, liveMessage({ a: { done: 2, nodes: { y: node("running", 2) } } }));
  assert.equal(after.runs.a!.nodes.y!.done, 2);
  assert.equal(after.runs.a!.nodes.x, before.runs.a!.nodes.x);
  assert.equal(after.runs.b, before.runs.b);
  assert.equal(after.runs.a!.state, "running");
});

test("a message without nodes keeps the run's nodes as they are", () => {
  const before = full({ a: { state: "running", nodes: { x: node("done") } } });
  assert.equal(applyMessage(before, liveMessage({ a: { seconds: 3 } })).runs.a!.nodes, before.runs.a!.nodes);
});

test("a message about nothing but devices leaves runs, queue and counters alone", () => {
  const before = full({ a: {} });
  const after = applyMessage(before, liveMessage({}, { devices: [] }));
  assert.equal(after.runs, before.runs);
  assert.equal(after.queue, before.queue);
  assert.equal(after.library, before.library);
});

test("the least that a message was behind tells how far the browser's clock is ahead", () => {
  const first = applyMessage(EMPTY_LIVE, liveMessage({}, { t: 1000 }), 61_000);
  const second = applyMessage(first, liveMessage({}, { t: 62_000 }), 65_000);
  assert.deepEqual([first.aheadMs, second.aheadMs], [60_000, 3000]);
  assert.equal(applyMessage(second, liveMessage({}, { t: 70_000 }), 75_000).aheadMs, 3000);
});

test("a full message replaces all runs; removed ones go", () => {
  const before = full({ a: {}, b: {} });
  assert.deepEqual(Object.keys(applyMessage(before, liveMessage({ c: {} }, { full: true })).runs), ["c"]);
  assert.deepEqual(Object.keys(applyMessage(before, liveMessage({}, { removed: ["a", "zz"] })).runs), ["b"]);
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
  assert.deepEqual(texts(), ["x: 2 done, 1 failed: no memory", "alone is done."]); // a success hides no failure beside it
  pageStore.getState().toasts.forEach(({ id }) => dismissToast(id));
});

test("a failure is no longer told once the workflow is run again, or was made", () => {
  const failed = full({ a: { name: "x", workflow_id: "w", batch: "1", state: "failed", error: "no memory" } });
  const numToasts = () => pageStore.getState().toasts.length;
  announce(failed.runs.a!, failed.runs);
  assert.equal(numToasts(), 1);
  assert.ok(pageStore.getState().toasts.every(({ isLasting }) => isLasting));
  const after = applyMessage(failed, liveMessage({ b: { name: "x", workflow_id: "w", batch: "2", state: "waiting" } }));
  assert.deepEqual(
    newRuns(failed, after).map((run) => run.id),
    ["b"],
  );
  newRuns(failed, after).forEach(announceNew);
  assert.equal(numToasts(), 0);
  announce(failed.runs.a!, failed.runs);
  const done = full({ c: { name: "renamed", workflow_id: "w", batch: "3", state: "done" } });
  announce(done.runs.c!, done.runs);
  assert.deepEqual(
    pageStore.getState().toasts.map(({ kind }) => kind),
    ["success"],
  );
  pageStore.getState().toasts.forEach(({ id }) => dismissToast(id));
});

test("runs that ended since are told once; those that were over before are not", () => {
  const before = full({ a: { state: "running" }, b: { state: "done" } });
  const after = applyMessage(before, liveMessage({ a: { state: "failed" }, c: { state: "done" } }));
  assert.deepEqual(
    endedRuns(before, after).map((run) => run.id),
    ["a"],
  );
  assert.deepEqual(endedRuns(after, after), []);
});

test("a run that began and ended between two messages is told, unless all runs are told", () => {
  const before = full({ a: { state: "running" } });
  const quick = { a: { state: "running" }, b: { state: "failed", created: 101 } } as const;
  const ended = (isFull: boolean) => endedRuns(before, applyMessage(before, liveMessage(quick, { full: isFull })));
  assert.deepEqual(
    ended(false).map((run) => run.id),
    ["b"],
  );
  assert.deepEqual(ended(true), []);
});

test("the tab tells how far the run is, else what is being edited", () => {
  const nodes = { draw: node("running", 3) };
  const run = full({ a: { name: "stars", state: "running", done: 3, total: 8, nodes } }).runs.a!;
  assert.equal(titleOf("cats", run), "37 % · stars · latentloom");
  assert.equal(titleOf("cats", { ...run, state: "waiting" }), "stars · latentloom");
  assert.equal(titleOf("cats", null), "cats · latentloom");
});

test("what was changed since a run is that node and all that it feeds; moving one is no change", () => {
  const before = toyGraph();
  const [first, second] = Object.keys(before.nodes);
  const moved = move(before, { [`n:${first}`]: [500, 500] });
  assert.deepEqual([...changedNodes(before, moved)], []);
  const muted = setMode(before, [second!], "mute");
  const changed = changedNodes(before, muted);
  assert.ok(changed.has(second!) && !changed.has(first!));
});

test("seconds that are left are whole, and never none", () => {
  assert.deepEqual([0.004, 1.2, 59.5].map(formatLeft), ["1 s", "2 s", "1 min"]);
});

test("seconds that are left count down between messages, and nobody knows once they are over", () => {
  const told = { left_s: 40, left_at: 100 };
  assert.deepEqual(
    [90, 110, 139, 141].map((now) => leftAt(told, now)),
    [40, 30, 1, null],
  );
  assert.equal(leftAt({ left_s: null, left_at: 0 }, 100), null);
});

test("what comes while the view moves is taken in its order soon after, and at once when it rests", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const taken: number[] = [];
  const tell = holding(({ seq }) => taken.push(seq));
  const send = (seq: number): void => tell(liveMessage({}, { seq }));
  send(1);
  hold(true);
  [2, 3].forEach(send);
  assert.deepEqual(taken, [1]);
  t.mock.timers.tick(1000);
  assert.deepEqual(taken, [1, 2, 3]);
  send(4);
  hold(false);
  send(5);
  assert.deepEqual(taken, [1, 2, 3, 4, 5]);
});

test("a run's progress is told once there are steps or times, and never goes back", () => {
  const told = (facts: Partial<Run>) => percentOf(liveRun("p", { started: 100, ...facts }), 110);
  const nodes = { draw: node("running") };
  assert.equal(told({ done: 2, total: 6 }), ""); // nodes, of which one has its steps yet to tell
  assert.equal(told({ done: 2, total: 21, nodes }), "9 %");
  const timed = { is_left_least: false, left_at: 110, total: 21 };
  assert.equal(told({ ...timed, left_s: 1 }), "9 %"); // before its first step: what took so long was loaded
  assert.equal(told({ ...timed, left_s: 1, done: 5, nodes }), "23 %"); // which is no part of what is left, either
  assert.equal(told({ ...timed, left_s: 10, done: 12, nodes }), "50 %");
  assert.equal(told({ ...timed, left_s: 90, done: 13, nodes }), "50 %");
  assert.equal(told({ state: "waiting" }), "");
  assert.equal(told({ done: 0, total: 6 }), "50 %"); // a server that was started again begins anew
  assert.equal(told({ done: 21, total: 21, nodes }), "99 %");
  assert.equal(told({ state: "done", done: 21, total: 21, nodes }), "");
});

test("a run whose nodes all wait yet is starting", () => {
  const nodes = { load: node("waiting"), draw: node("waiting") };
  assert.ok(isStarting(liveRun("s", { nodes })));
  assert.ok(!isStarting(liveRun("s", { nodes: { ...nodes, load: node("running") } })));
  assert.ok(!isStarting(liveRun("s", { state: "waiting", nodes })));
});
