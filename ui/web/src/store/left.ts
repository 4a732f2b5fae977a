/** How long a run or a node takes yet, counted down between what the server tells. */

import { useEffect, useState } from "react";
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
