/** The title of the browser's tab: how far a run is, and what is being edited. */

import type { Run } from "../types";
import { editorStore } from "./editor";
import { liveStore, serverNow } from "./live";
import { newestActive } from "./liveState";
import { percentOf } from "./left";

const PAGE = "latentloom";

/** Keeps the title from now on, with what `edited` says behind the run; what is returned ends that. */
export function keepTitle(edited = () => editorStore.getState().whole.name): () => void {
  const write = (): void => {
    const { runs } = liveStore.getState();
    const title = titleOf(edited(), runs[newestActive(runs) ?? ""] ?? null);
    if (document.title !== title) document.title = title;
  };
  write();
  const ends = [liveStore.subscribe(write), editorStore.subscribe(write)];
  return () => ends.forEach((end) => end());
}

/** "37 % · stars · latentloom"; without a run, what is being edited. */
export function titleOf(edited: string, active: Run | null, now = serverNow()): string {
  return [active ? percentOf(active, now) : "", active?.name ?? edited, PAGE].filter(Boolean).join(" · ");
}
