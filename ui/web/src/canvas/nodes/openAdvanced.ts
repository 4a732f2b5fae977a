/** Which nodes show their advanced inputs: kept while the page is open, also for nodes that are out of sight. */

import { useStore } from "zustand";
import { createStore } from "zustand/vanilla";

const opened = createStore<ReadonlySet<string>>(() => new Set());

export function useOpenAdvanced(node: string): boolean {
  return useStore(opened, (names) => names.has(node));
}

export function toggleAdvanced(node: string): void {
  const names = new Set(opened.getState());
  if (!names.delete(node)) names.add(node);
  opened.setState(names, true);
}
