/** Copies of drafts in this browser, of edits that the server does not have yet. */

import type { GraphFile, WorkflowRef } from "../types";

const PREFIX = "loom.draft.";

export interface DraftCopy {
  key: string;
  user: string;
  graph: GraphFile;
  workflow: WorkflowRef | null;
  /** Epoch milliseconds. */
  time: number;
}

/** This user's copies, newest first. */
export function readCopies(user: string): DraftCopy[] {
  try {
    const keys = Object.keys(localStorage).filter((key) => key.startsWith(PREFIX));
    const copies = keys.flatMap((key) => parsed(localStorage.getItem(key)));
    return copies.filter((copy) => copy.user === user).sort((a, b) => b.time - a.time);
  } catch {
    return [];
  }
}

/** A browser that is full or keeps nothing leaves it to the server. */
export function writeCopy(copy: DraftCopy): void {
  try {
    localStorage.setItem(PREFIX + copy.key, JSON.stringify(copy));
  } catch {
    dropCopy(copy.key);
  }
}

export function dropCopy(key: string): void {
  try {
    localStorage.removeItem(PREFIX + key);
  } catch {
    // It keeps nothing, so there is nothing to drop.
  }
}

function parsed(text: string | null): DraftCopy[] {
  try {
    const copy = JSON.parse(text ?? "") as DraftCopy;
    return typeof copy.key === "string" && typeof copy.graph === "object" ? [copy] : [];
  } catch {
    return [];
  }
}
