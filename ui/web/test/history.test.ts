import assert from "node:assert/strict";
import { test } from "node:test";
import { newHistory, record, redo, undo } from "../src/graph/history";

test("edits with one merge key are undone at once, another edit between them ends that", () => {
  let history = record(newHistory(0), 1, "drag", "m");
  history = record(history, 2, "drag", "m");
  assert.equal(undo(history).present, 0);
  history = record(record(history, 3, "other"), 4, "drag", "m");
  assert.equal(undo(history).present, 3);
});

test("an undone edit does not merge with the next, and a new edit drops what was undone", () => {
  let history = record(record(newHistory(0), 1, "a", "m"), 2, "b");
  history = record(undo(undo(history)), 5, "a", "m");
  assert.deepEqual([undo(history).present, redo(history).present], [0, 5]);
});

test("redo brings back what undo took, and neither goes over the end", () => {
  const history = record(newHistory("a"), "b", "edit");
  assert.equal(redo(undo(history)).present, "b");
  assert.equal(undo(undo(history)).present, "a");
  assert.equal(redo(history), history);
});

test("what changes nothing is no edit, and the history has an end", () => {
  let history = newHistory(0);
  assert.equal(record(history, 0, "nothing"), history);
  for (let i = 1; i <= 1000; i++) history = record(history, i, "edit");
  assert.equal(history.past.length, 300);
  assert.equal(undo(history).present, 999);
});
