/** Runs that are over and that the live connection no longer tells of, page by page as one scrolls. */

import { useStore } from "zustand";
import { createStore } from "zustand/vanilla";
import { ApiError, host, sentence } from "../../host";
import { liveStore } from "../../store/live";
import type { Run, RunRow } from "../../types";

interface OlderRuns {
  runs: readonly Run[];
  isEnd: boolean;
  isLoading: boolean;
  /** Why they could not be read; empty where they could. */
  problem: string;
}

const PAGE = 200;
/** So many that are over the live connection tells of at most. */
const TOLD = 200;
const NONE: OlderRuns = { runs: [], isEnd: false, isLoading: false, problem: "" };

export const olderRuns = createStore<OlderRuns>(() => NONE);

export function useOlderRuns(): OlderRuns {
  return useStore(olderRuns);
}

/** Whether there may be any, where so many are told of. */
export function mayBeOlder(numTold: number): boolean {
  return numTold >= TOLD;
}

/** The next page; from the start where the last row is gone. */
export async function readOlder(): Promise<void> {
  const { runs, isEnd, isLoading } = olderRuns.getState();
  if (isEnd || isLoading) return;
  olderRuns.setState({ isLoading: true, problem: "" });
  try {
    const page = await host.runsOver(PAGE, runs.at(-1)?.id);
    const known = new Set(runs.map(({ id }) => id));
    const more = page.filter(({ id }) => !known.has(id)).map(withoutNodes);
    olderRuns.setState(({ isLoading: isWanted, runs: now }) =>
      isWanted ? { runs: [...now, ...more], isEnd: page.length < PAGE, isLoading: false } : {},
    );
  } catch (error) {
    const isGone = error instanceof ApiError && error.status === 404;
    olderRuns.setState(isGone ? NONE : { isLoading: false, problem: sentence(error) });
  }
}

function withoutNodes(row: RunRow): Run {
  return { ...row, overrides: {}, targets: null, nodes: {} };
}

liveStore.subscribe(({ removed }, before) => {
  if (removed === before.removed || olderRuns.getState() === NONE) return;
  if (removed === null) olderRuns.setState(NONE);
  else if (removed.length > 0) {
    const gone = new Set(removed);
    olderRuns.setState(({ runs }) => ({ runs: runs.filter(({ id }) => !gone.has(id)) }));
  }
});
