/** A run's progress as one number, the seconds that are left, and the node that works now. */

import { typeIn } from "../graph/subs";
import type { GraphFile, NodeState, Run } from "../types";
import { worded } from "../worded";

const ENDED: ReadonlySet<string> = new Set(["done", "cached", "skipped", "failed", "cancelled"]);

export interface Progress {
  /** 0 to 1; null while nothing has told its steps yet. */
  part: number | null;
  /** null where it is not known. */
  left_s: number | null;
}

export interface Times {
  /** Seconds that the run has taken until now. */
  elapsed: number;
  /** Seconds that it takes yet, as the server predicts; null where it does not know. */
  left: number | null;
}

/** By time where the server knows how much is left, else by steps over all nodes: one that has not begun counts as many
 * as another one of its type has told. */
export function progressOf(run: Run, graph: GraphFile, { elapsed, left }: Times): Progress {
  if (left !== null) return { part: elapsed / (elapsed + left), left_s: left };
  const told = new Map<string, number>();
  for (const [name, { total }] of Object.entries(run.nodes)) if (total > 1) told.set(typeOf(graph, name), total);
  if (told.size === 0) return { part: run.state === "done" ? 1 : null, left_s: null };
  let done = 0;
  let size = 0;
  let stepsLeft = 0;
  for (const [name, node] of Object.entries(run.nodes)) {
    const isOver = ENDED.has(node.state);
    const expected = node.total || told.get(typeOf(graph, name)) || 1;
    size += expected;
    done += isOver ? expected : node.done;
    if (!isOver && expected > 1) stepsLeft += expected - node.done;
  }
  const step_s = secondsOfStep(run);
  return { part: done / size, left_s: step_s === null ? null : stepsLeft * step_s };
}

/** Name and state of the node that runs; of several, the one with steps. */
export function runningNode(run: Run): [string, NodeState] | null {
  const running = Object.entries(run.nodes).filter(([, node]) => node.state === "running");
  return running.find(([, node]) => node.total > 0) ?? running[0] ?? null;
}

/** The node whose preview is shown: the running one's, else the last that has one. */
export function previewOf(run: Run): { node: string; number: number } | null {
  const running = runningNode(run);
  const all = Object.entries(run.nodes).reverse();
  const found = (running ? [running, ...all] : all).find(([, node]) => node.preview > 0);
  return found ? { node: found[0], number: found[1].preview } : null;
}

/** The sentence of the first node that failed, else the run's own. */
export function failureOf(run: Run): string {
  const failed = Object.values(run.nodes).find((node) => node.state === "failed" && node.message);
  return worded(failed?.message ?? run.error);
}

function secondsOfStep(run: Run): number | null {
  const running = runningNode(run)?.[1];
  if (!running?.left_s || running.done >= running.total) return null;
  return running.left_s / (running.total - running.done);
}

function typeOf(graph: GraphFile, name: string): string {
  return typeIn(graph, name) || name;
}
