/** The endless list of results: pages joined and kept in order. */
import type { Result, Run } from "../types";

export type KindFilter = "all" | Result["kind"];

export interface Filter {
  kind: KindFilter;
  /** The id of a board; empty for all results. */
  board: string;
  isStarred: boolean;
  /** Name of the workflow; empty for all. */
  workflow: string;
}

export const EVERYTHING: Filter = { kind: "all", board: "", isStarred: false, workflow: "" };

/** `items` with the next, older page behind. */
export function withOlder(items: readonly Result[], page: readonly Result[]): Result[] {
  const known = new Set(items.map((item) => item.id));
  return [...items, ...page.filter((item) => !known.has(item.id))];
}

/** `items` with a fresh newest page: what is new stands in front, what is gone from the page's span is left out. */
export function withNewest(items: readonly Result[], page: readonly Result[], isAll: boolean): Result[] {
  if (isAll) return [...page];
  const last = page.at(-1);
  const cut = last ? items.findIndex((item) => item.id === last.id) : -1;
  // Without an overlap there may be a gap between the page and what is known: start anew from the page.
  return cut < 0 ? [...page] : [...page, ...items.slice(cut + 1)];
}

export interface Sweep {
  batch: string;
  name: string;
  /** The names of what varies. */
  varied: string[];
  runs: Run[];
}

/** The batches that vary something, newest first. */
export function sweeps(runs: readonly Run[]): Sweep[] {
  const found = new Map<string, Sweep>();
  for (const run of [...runs].sort((a, b) => b.created - a.created)) {
    const varied = Object.keys(run.varied);
    if (varied.length === 0) continue;
    const sweep = found.get(run.batch) ?? { batch: run.batch, name: run.name, varied, runs: [] };
    sweep.runs.push(run);
    found.set(run.batch, sweep);
  }
  return [...found.values()];
}

export interface Day {
  /** Midnight of that day here, ms since 1970. */
  start: number;
  items: Result[];
}

export function byDay(items: readonly Result[]): Day[] {
  const days: Day[] = [];
  for (const item of items) {
    const start = new Date(item.time * 1000).setHours(0, 0, 0, 0);
    const last = days.at(-1);
    if (last?.start === start) last.items.push(item);
    else days.push({ start, items: [item] });
  }
  return days;
}

/** The result `step` places away from `id`; undefined past either end. */
export function neighbour(items: readonly Result[], id: string, step: 1 | -1): Result | undefined {
  const at = items.findIndex((item) => item.id === id);
  return at < 0 ? undefined : items[at + step];
}
