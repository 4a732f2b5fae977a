/** Undo and redo. */

const LIMIT = 300;

interface Step<G> {
  label: string;
  /** The graph before the edit. */
  before: G;
  mergeKey: string;
  /** Where the edit was made, by nodes that one goes into. */
  place: readonly string[];
}

/** A graph with the edits that led to it and those that were undone. */
export interface History<G> {
  present: G;
  past: readonly Step<G>[];
  future: readonly Step<G>[];
}

export function newHistory<G>(present: G): History<G> {
  return { present, past: [], future: [] };
}

/** Record an edit. One with the same merge key as the edit just before it becomes part of that one. */
export function record<G>(
  history: History<G>,
  next: G,
  label: string,
  mergeKey = "",
  place: readonly string[] = [],
): History<G> {
  if (next === history.present) return history;
  const last = history.past.at(-1);
  if (mergeKey && last?.mergeKey === mergeKey && !history.future.length) return { ...history, present: next };
  const past = [...history.past.slice(1 - LIMIT), { label, before: history.present, mergeKey, place }];
  return { present: next, past, future: [] };
}

export function undo<G>(history: History<G>): History<G> {
  const last = history.past.at(-1);
  if (!last) return history;
  const undone = { ...last, before: history.present };
  return { present: last.before, past: history.past.slice(0, -1), future: [...history.future, undone] };
}

export function redo<G>(history: History<G>): History<G> {
  const next = history.future.at(-1);
  if (!next) return history;
  const done = { ...next, before: history.present, mergeKey: "" };
  return { present: next.before, past: [...history.past, done], future: history.future.slice(0, -1) };
}
