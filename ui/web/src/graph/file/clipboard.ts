/** The clipboard: the system's, and a memory of our own where a browser refuses that. */

import { clipText, readClip, type Clip } from "./clip";

let remembered: Clip | null = null;

export async function putClip(clip: Clip): Promise<void> {
  remembered = clip;
  try {
    await navigator.clipboard.writeText(clipText(clip));
  } catch {
    // Refused, or a page without TLS: the memory serves this page.
  }
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

/** What was copied last; null where that is nothing of ours. `text` is what a paste event brought. */
export async function takeClip(text?: string): Promise<Clip | null> {
  if (text) return readClip(text) ?? null;
  try {
    return readClip(await navigator.clipboard.readText()) ?? remembered;
  } catch {
    return remembered;
  }
}
