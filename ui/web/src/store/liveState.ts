/** The state of all runs as this page knows it, and how a message of the server changes it. */

import type { Device, LiveMessage, QueueEntry, Run, RunState } from "../types";

export interface LiveState {
  runs: Readonly<Record<string, Run>>;
  /** The ids of runs that the newest message took away; null where it told everything anew. */
  removed: readonly string[] | null;
  queue: readonly QueueEntry[];
  devices: readonly Device[];
  /** Revision counters: a view reads its list anew when its counter changes. */
  library: number;
  results: number;
  downloads: number;
  server: string;
  connection: "on" | "off" | "restarted";
  /** How far this browser's clock is ahead of the server's, at most: the least that any message was behind it. */
  aheadMs: number | null;
  /** The run whose nodes are shown on the canvas. */
  watched: string | null;
}

export const EMPTY_LIVE: LiveState = {
  runs: {},
  removed: [],
  queue: [],
  devices: [],
  library: 0,
  results: 0,
  downloads: 0,
  server: "",
  connection: "off",
  aheadMs: null,
  watched: null,
};

const OVER: readonly RunState[] = ["done", "failed", "cancelled"];

export function isOver(state: RunState): boolean {
  return OVER.includes(state);
}

/** Whether a run is under way and none of its nodes has begun: where it is made, all is got ready first. */
export function isStarting(run: Pick<Run, "state" | "nodes"> | undefined): boolean {
  return run?.state === "running" && Object.values(run.nodes).every(({ state }) => state === "waiting");
}

/** The state after a message. What did not change stays the same object, so that nothing is drawn twice. */
export function applyMessage(state: LiveState, message: LiveMessage, now = Date.now()): LiveState {
  const known = message.full ? {} : state.runs;
  const changed = Object.entries(message.runs).map(([id, told]) => {
    const nodes = known[id]?.nodes;
    if (!nodes) return [id, told] as const;
    return [id, { ...told, nodes: Object.keys(told.nodes).length > 0 ? { ...nodes, ...told.nodes } : nodes }] as const;
  });
  const gone = new Set(message.removed);
  const kept = Object.entries({ ...known, ...Object.fromEntries(changed) }).filter(([id]) => !gone.has(id));
  const isChanged = message.full || changed.length > 0 || gone.size > 0;
  return {
    ...state,
    runs: isChanged ? Object.fromEntries(kept) : state.runs,
    removed: message.full ? null : message.removed,
    queue: message.queue ?? state.queue,
    devices: message.devices ?? state.devices,
    library: message.library,
    results: message.results,
    downloads: message.downloads,
    server: message.server,
    aheadMs: Math.min(state.aheadMs ?? Infinity, now - message.t),
  };
}

/** The run that a page which watches none should show: the one that runs, else the one that waits first. */
export function newestActive(runs: Readonly<Record<string, Run>>): string | null {
  const active = Object.values(runs).filter((run) => !isOver(run.state));
  const first = active.find((run) => run.state === "running") ?? active[0];
  return first?.id ?? null;
}

/** What was put into the queue between two states. */
export function newRuns(before: LiveState, after: LiveState): Run[] {
  if (before.runs === after.runs) return [];
  return Object.values(after.runs).filter((run) => before.runs[run.id] === undefined && !isOver(run.state));
}

/** What ended between two states, and may have begun there too: the runs that people should hear of. */
export function endedRuns(before: LiveState, after: LiveState): Run[] {
  if (before.runs === after.runs) return [];
  const isNews = after.removed !== null; // all there is tells also of what was over long ago
  const newest = Math.max(...Object.values(before.runs).map(({ created }) => created), 0);
  return Object.values(after.runs).filter((run) => {
    const old = before.runs[run.id];
    return isOver(run.state) && (old ? !isOver(old.state) : isNews && run.created > newest);
  });
}
