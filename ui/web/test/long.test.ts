import assert from "node:assert/strict";
import { test } from "node:test";
import { layOut, tileBeside } from "../src/gallery/list/tileLayout";
import { olderRuns } from "../src/panels/queue/olderRuns";
import { waitText, waitsOf } from "../src/panels/queue/waits";
import { between, heightOf, shiftOf, stacked } from "../src/parts/long/boxes";
import { fullness } from "../src/store/kept";
import { receive } from "../src/store/live";
import type { QueueEntry, Result } from "../src/types";
import { liveMessage, liveRun } from "./live";

const KEYS = Array.from({ length: 2000 }, (_, at) => `k${at}`);

test("of a long list only what is near the window is drawn, however its entries differ in height", () => {
  const boxes = stacked(KEYS, (key) => (key.endsWith("7") ? 100 : 50));
  assert.equal(heightOf(boxes), 2000 * 55);
  const [first, end] = between(boxes, 55_000, 55_900);
  assert.deepEqual([boxes[first]?.top, boxes[end - 1]?.top], [55_000, 55_850]);
  assert.deepEqual(between(boxes, -500, -1), [0, 0]);
  assert.deepEqual(between(boxes, 1e9, 2e9), [2000, 2000]);
  assert.deepEqual(between([], 0, 100), [0, 0]);
});

test("what one looks at stays when others come in above, go, or turn out higher than they were taken for", () => {
  const before = stacked(KEYS, () => 50);
  const seen = before.slice(100, 120);
  assert.equal(
    shiftOf(
      seen,
      stacked(["new", ...KEYS], () => 50),
    ),
    50,
  );
  assert.equal(
    shiftOf(
      seen,
      stacked(KEYS.slice(3), () => 50),
    ),
    -150,
  );
  assert.equal(
    shiftOf(
      seen,
      stacked(KEYS, (key) => (key === "k9" ? 80 : 50)),
    ),
    30,
  );
  const withoutFirst = KEYS.filter((key) => key !== "k100");
  assert.equal(
    shiftOf(
      seen,
      stacked(withoutFirst, () => 50),
    ),
    -50,
    "by the next one that is still there",
  );
  assert.equal(shiftOf([], before), 0);
  assert.equal(
    shiftOf(
      seen,
      stacked(["other"], () => 50),
    ),
    0,
  );
});

const DAY = 86_400;
const MEASURES = { width: 430, least: 100, gap: 10, heading: 30, between: 20 };
/** Four columns of 100 px: a day of five, then one of two. */
const RESULTS = [10, 9, 8, 7, 6, 5 - 2 * DAY, 4 - 2 * DAY].map(
  (time, at) => ({ id: `r${at}`, time: time + 10 * DAY }) as Result,
);

test("results lie in rows of squares under their days, each knowing its number of how many", () => {
  const { side, days, tiles, height } = layOut(RESULTS, MEASURES);
  assert.equal(side, 100);
  assert.deepEqual(
    days.map(({ top, height: high, first, count }) => [top, high, first, count]),
    [
      [0, 240, 0, 5],
      [260, 130, 5, 2],
    ],
  );
  assert.deepEqual(
    [0, 3, 4, 5].map((at) => tiles[at] && [tiles[at].left, tiles[at].top, tiles[at].place]),
    [
      [0, 30, 1],
      [330, 30, 4],
      [0, 140, 5],
      [0, 290, 1],
    ],
  );
  assert.equal(height, 390);
  assert.deepEqual(layOut([], MEASURES), { side: 100, days: [], tiles: [], height: 0 });
  assert.equal(layOut(RESULTS, { ...MEASURES, width: 0 }).tiles.length, 7, "in a tab that is not shown");
});

test("arrow keys go from picture to picture as they lie, also from day to day", () => {
  const { tiles } = layOut(RESULTS, MEASURES);
  const go = (from: number, key: string) => tileBeside(tiles, from, key, 250);
  assert.deepEqual([go(0, "ArrowRight"), go(0, "ArrowLeft"), go(6, "ArrowRight")], [1, 0, 6]);
  assert.deepEqual([go(0, "ArrowDown"), go(2, "ArrowDown"), go(4, "ArrowDown"), go(6, "ArrowDown")], [4, 4, 5, 6]);
  assert.deepEqual([go(6, "ArrowUp"), go(4, "ArrowUp"), go(2, "ArrowUp")], [4, 0, 2]);
  assert.deepEqual([go(0, "PageDown"), go(6, "PageUp"), go(3, "Home"), go(3, "End")], [5, 1, 0, 6]);
  assert.equal(go(0, "a"), null);
});

function place(id: string | null, facts: Partial<QueueEntry> = {}): QueueEntry {
  const state = facts.state ?? "waiting";
  return { id, is_mine: id !== null, name: "", priority: "normal", left_s: null, left_at: 0, ...facts, state };
}

test("a run that waits is told its place, and when it begins as far as those before it are predicted", () => {
  const queue = [
    place(null, { state: "running", left_s: 30, left_at: 100 }),
    place("a", { left_s: 20 }),
    place(null, { left_s: 10 }),
    place("b"),
    place("c"),
  ];
  const waits = waitsOf(queue, {}, 110);
  assert.deepEqual(waits.get("a"), { place: 1, seconds: 20, isLeast: false });
  assert.deepEqual(waits.get("b"), { place: 3, seconds: 50, isLeast: false });
  assert.deepEqual(waits.get("c"), { place: 4, seconds: 50, isLeast: true });
  assert.equal(waitText({ place: 3, seconds: 38, isLeast: false }), "3rd, in about 40 s");
  assert.equal(waitText({ place: 22, seconds: 50, isLeast: true }), "22nd, in 50 s or more");
  assert.deepEqual(waitsOf([place(null, { state: "running" }), place("a")], {}, 0).get("a"), {
    place: 1,
    seconds: null,
    isLeast: true,
  });
  assert.equal(waitText({ place: 1, seconds: null, isLeast: true }), "1st in line");
  const late = [place("mine", { state: "running", left_s: 5, left_at: 1 }), place("a")];
  assert.deepEqual(waitsOf(late, {}, 99).get("a"), { place: 1, seconds: null, isLeast: true }, "that time is over");
  const runs = { mine: { left_s: 12, left_at: 98 } };
  assert.equal(waitsOf(late, runs, 99).get("a")?.seconds, 11, "its own steps know better");
});

test("older runs that are deleted elsewhere go, and a connection that begins anew reads them anew", () => {
  receive(liveMessage({}, { full: true }));
  olderRuns.setState({ runs: [liveRun("x"), liveRun("y")], isEnd: true });
  receive(liveMessage({}, { removed: ["x"] }));
  assert.deepEqual(
    olderRuns.getState().runs.map(({ id }) => id),
    ["y"],
  );
  receive(liveMessage({}, { full: true }));
  assert.deepEqual([olderRuns.getState().runs, olderRuns.getState().isEnd], [[], false]);
});

test("people are told before nothing more is taken", () => {
  const kept = { num_bytes: 89, most_bytes: 100, free_bytes: 1 << 30, kinds: [] };
  assert.equal(fullness(kept), null);
  assert.equal(fullness({ ...kept, num_bytes: 90 }), "quota");
  assert.equal(fullness({ ...kept, free_bytes: 1000 }), "disk");
});
