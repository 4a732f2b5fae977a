/** How far a run is, as a part of its time where the server knows that, else of its steps. It never goes back, although a
 * node may tell late how much it has to do, and a run that a server's end cut off begins anew. */

import type { Run } from "../types";
import { leftAt } from "./left";

/** By run; of those that are over nothing is kept. */
const furthest = new Map<string, number>();

/** 0 to 1; null where it does not run, or nobody can tell yet. */
export function partOf(run: Run, now: number): number | null {
  if (run.state !== "running") {
    if (run.state !== "waiting") furthest.delete(run.id);
    return null;
  }
  const part = Math.max(furthest.get(run.id) ?? 0, reckoned(run, now));
  furthest.set(run.id, part);
  return part > 0 ? part : null;
}

/** Until a node has told its steps a run has none: six nodes are not six of them. */
function reckoned(run: Run, now: number): number {
  const left = run.is_left_least ? null : leftAt(run, now);
  const elapsed = run.started ? Math.max(now - run.started, 0) : 0;
  if (left !== null) return elapsed / (elapsed + left);
  const isTold = Object.values(run.nodes).some(({ total }) => total > 1);
  return isTold && run.total > 0 ? run.done / run.total : 0;
}

/** "37 %"; "" where nobody can tell. It is 100 % once the run is over, and not before. */
export function percentOf(run: Run, now: number): string {
  const part = partOf(run, now);
  return part === null ? "" : `${Math.min(Math.floor(100 * part), 99)} %`;
}
