/** How long a run or a node takes yet, counted down between what the server tells, and how far a run is. */

import { useEffect, useState } from "react";
import type { Run } from "../types";
import { serverNow } from "./live";

const TICK_MS = 500;

interface Told {
  left_s: number | null;
  left_at: number;
}

/** null where nobody knows; so it is, too, once all of what was told is over. */
export function leftAt({ left_s, left_at }: Told, now: number): number | null {
  if (left_s === null) return null;
  const left = left_s - Math.max(now - left_at, 0);
  return left > 0 ? left : null;
}

export function useLeft(told: Told): number | null {
  return leftAt(told, useServerNow(told.left_s !== null));
}

/** Epoch seconds on the server's clock; it goes on while it is ticking. */
export function useServerNow(isTicking: boolean): number {
  const [now, setNow] = useState(serverNow);
  useEffect(() => {
    if (!isTicking) return;
    const timer = setInterval(() => setNow(serverNow()), TICK_MS);
    return () => clearInterval(timer);
  }, [isTicking]);
  return now;
}

/** By run; of those that are over nothing is kept. */
const furthest = new Map<string, number>();

/** How far a run is, 0 to 1, as time tells where the server knows that, and no further than its steps; null where it does
 * not run, or nobody can tell yet. It never goes back, although a node may tell late how much it has to do, and a run that
 * was under way when a server ended begins anew. */
export function partOf(run: Run, now: number): number | null {
  if (run.state !== "running") {
    if (run.state !== "waiting") furthest.delete(run.id);
    return null;
  }
  const part = Math.max(furthest.get(run.id) ?? 0, reckoned(run, now));
  furthest.set(run.id, part);
  return part > 0 ? part : null;
}

/** Until a node has told its steps a run has none: six nodes are not six of them. And until then time tells nothing: what
 * is loaded first may take as long as a hundred steps. */
function reckoned(run: Run, now: number): number {
  const isTold = Object.values(run.nodes).some(({ total }) => total > 1);
  if (!isTold || run.total <= 0) return 0;
  const left = run.is_left_least ? null : leftAt(run, now);
  const elapsed = run.started ? Math.max(now - run.started, 0) : 0;
  return Math.min(run.done / run.total, left === null ? 1 : elapsed / (elapsed + left));
}

/** "37 %"; "" where nobody can tell. It is 100 % once the run is over, and not before. */
export function percentOf(run: Run, now: number): string {
  const part = partOf(run, now);
  return part === null ? "" : `${Math.min(Math.floor(100 * part), 99)} %`;
}
