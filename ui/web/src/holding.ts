/** What the server tells waits while the view moves: each drawing of a run would cost the move frames. */

import type { LiveMessage } from "./types";

type Take = (message: LiveMessage) => void;

/** So long at most. */
const LONGEST_MS = 1000;

let isHeld = false;
let held: (() => void)[] = [];
let release: ReturnType<typeof setTimeout> | undefined;

export function hold(isMoving: boolean): void {
  isHeld = isMoving;
  if (!isMoving) letGo();
}

/** `take`, at once or a few messages later, all in their order. */
export function holding(take: Take): Take {
  return (message) => {
    if (!isHeld) return take(message);
    held.push(() => take(message));
    release ??= setTimeout(letGo, LONGEST_MS);
  };
}

function letGo(): void {
  clearTimeout(release);
  release = undefined;
  const due = held;
  held = [];
  for (const each of due) each();
}
