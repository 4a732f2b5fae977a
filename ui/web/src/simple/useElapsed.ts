import { useEffect, useState } from "react";
import { isOver } from "../store/live";
import type { Run } from "../types";

const TICK_MS = 500;

/** Seconds that a run has taken until now; ticks while it runs. */
export function useElapsed(run: Run): number {
  const [now, setNow] = useState(() => Date.now());
  const isTicking = run.started !== null && !isOver(run.state);
  useEffect(() => {
    if (!isTicking) return;
    const timer = setInterval(() => setNow(Date.now()), TICK_MS);
    return () => clearInterval(timer);
  }, [isTicking]);
  if (run.started === null) return 0;
  // The server's clock may be ahead of the browser's.
  return Math.max((run.ended ?? now / 1000) - run.started, 0);
}
