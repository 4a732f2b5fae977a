/** What the user keeps on the server's disk: read at the start, and a while after something was made or deleted. */

import { useStore } from "zustand";
import { createStore } from "zustand/vanilla";
import { host } from "../host";
import type { Kept } from "../types";
import { liveStore } from "./live";

/** From this part of what may be kept on, people are told. */
const NEARLY_FULL = 0.9;
/** Less than this on the server's disk is told, too. */
const FEW_BYTES = 1 << 30;
const DELAY_MS = 2000;

const keptStore = createStore<{ kept: Kept | null }>(() => ({ kept: null }));
let timer: ReturnType<typeof setTimeout> | undefined;

/** null before it was read. */
export function useKept(): Kept | null {
  return useStore(keptStore, (state) => state.kept);
}

/** Why soon nothing more is taken; null while there is room. */
export function fullness({ num_bytes, most_bytes, free_bytes }: Kept): "quota" | "disk" | null {
  if (num_bytes >= NEARLY_FULL * most_bytes) return "quota";
  return free_bytes < FEW_BYTES ? "disk" : null;
}

export async function readKept(): Promise<void> {
  try {
    keptStore.setState({ kept: await host.kept() });
  } catch {
    // It is read again with the next change; what is refused says so itself.
  }
}

/** Read it from now on. */
export function followKept(): void {
  void readKept();
  liveStore.subscribe((state, before) => {
    const isSame = state.results === before.results && state.library === before.library;
    if (isSame && state.server === before.server) return;
    clearTimeout(timer);
    timer = setTimeout(() => void readKept(), DELAY_MS);
  });
}
