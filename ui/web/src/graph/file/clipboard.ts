/** The clipboard: the system's, and a memory of our own where a browser refuses that. */

import { clipText, readClip, type Clip } from "./clip";

let remembered: Clip | null = null;
/** What was copied last was copied here, but the system's clipboard does not have it: not yet, or not at all. */
let isOnlyHere = false;
let isRefused = false;

export async function putClip(clip: Clip): Promise<void> {
  remembered = clip;
  isOnlyHere = true;
  try {
    await navigator.clipboard.writeText(clipText(clip));
    if (remembered === clip) isOnlyHere = isRefused = false;
  } catch {
    isRefused = true; // as on a page without TLS: the memory serves this page
    globalThis.addEventListener?.("blur", elsewhere, { once: true });
  }
}

/** Something else may be copied there. */
function elsewhere(): void {
  isOnlyHere = false;
}

/** False where the browser refuses it. */
export async function putText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** What was copied last; null where that is nothing of ours. `text` is what a paste event brought: whatever the system
has, also where it refused what was copied here. */
export async function takeClip(text?: string): Promise<Clip | null> {
  if (isOnlyHere) return remembered;
  if (text) return readClip(text) ?? (isRefused ? remembered : null);
  try {
    return readClip(await navigator.clipboard.readText()) ?? remembered;
  } catch {
    return remembered;
  }
}
