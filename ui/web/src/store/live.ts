/** What goes on at the server: runs, queue, devices, as hooks that redraw only what changed. */

import { useStore } from "zustand";
import { createStore } from "zustand/vanilla";
import { stateIn } from "../graph/subs";
import type { Device, LiveMessage, NodeState, QueueEntry, Run } from "../types";
import { applyMessage, EMPTY_LIVE, newestActive, type LiveState } from "./liveState";

export { isOver } from "./liveState";

const WATCHED_KEY = "loom.watched";
const NO_NODES = {};
const RESTARTED_MS = 6000;

export const liveStore = createStore<LiveState>(() => ({ ...EMPTY_LIVE, watched: rememberedRun() }));

export function useLive<T>(selector: (state: LiveState) => T): T {
  return useStore(liveStore, selector);
}

export function useRun(id: string | null): Run | null {
  return useLive((state) => (id ? (state.runs[id] ?? null) : null));
}

export function useWatchedRun(): Run | null {
  return useLive((state) => (state.watched ? (state.runs[state.watched] ?? null) : null));
}

/** The state of a node in the run being watched; null where there is none. */
export function useNodeState(name: string): NodeState | null {
  return useLive((state) => (state.watched ? stateIn(state.runs[state.watched]?.nodes ?? NO_NODES, name) : null));
}

export function useQueue(): readonly QueueEntry[] {
  return useLive((state) => state.queue);
}

/** All runs by id. */
export function useRuns(): Readonly<Record<string, Run>> {
  return useLive((state) => state.runs);
}

export function useDevices(): readonly Device[] {
  return useLive((state) => state.devices);
}

/** Epoch seconds on the server's clock, for times that it sent. */
export function serverNow(): number {
  return (Date.now() - (liveStore.getState().aheadMs ?? 0)) / 1000;
}

/** Show another run on the canvas; null shows none. Remembered for a reload of this tab. */
export function watchRun(id: string | null): void {
  liveStore.setState({ watched: id });
  try {
    if (id) sessionStorage.setItem(WATCHED_KEY, id);
    else sessionStorage.removeItem(WATCHED_KEY);
  } catch {
    // A browser that keeps nothing: the choice holds for this page.
  }
}

/** Take in a message of the server. */
export function receive(message: LiveMessage): void {
  const before = liveStore.getState();
  const next = applyMessage(before, message);
  const isRestarted = before.server !== "" && before.server !== message.server;
  const isFirst = before.server === "";
  const isGone = message.full && next.watched !== null && !next.runs[next.watched];
  const watched = isGone ? null : next.watched;
  liveStore.setState({
    ...next,
    watched: isFirst && !watched ? newestActive(next.runs) : watched,
    ...(isRestarted ? { connection: "restarted" } : {}),
  });
  if (isRestarted) setTimeout(forgetRestart, RESTARTED_MS);
}

function forgetRestart(): void {
  if (liveStore.getState().connection === "restarted") setConnection(true);
}

export function setConnection(isOn: boolean): void {
  liveStore.setState({ connection: isOn ? "on" : "off" });
}

function rememberedRun(): string | null {
  try {
    return sessionStorage.getItem(WATCHED_KEY);
  } catch {
    return null;
  }
}
