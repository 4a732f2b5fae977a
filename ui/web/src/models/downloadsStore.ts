/** The user's downloads of models: read when a page begins, and whenever the server says that they changed. */

import { useStore } from "zustand";
import { createStore } from "zustand/vanilla";
import type { ModelSource } from "../graph/loras";
import { host } from "../host";
import { t } from "../i18n";
import type { Download } from "../types";
import { openedApp } from "../store/links";
import { liveStore } from "../store/live";
import { go, openDialog, pageStore, toast, usePage } from "../store/page";
import { hubAddress } from "./pullCommand";

export interface DownloadsState {
  /** Newest first. */
  downloads: readonly Download[];
  /** How many became models while this page looked on. */
  numFetched: number;
}

export const downloadsStore = createStore<DownloadsState>(() => ({ downloads: [], numFetched: 0 }));
let isFollowing = false;
let isReading = false;
let isStale = false;

export function useDownloads(): readonly Download[] {
  return useStore(downloadsStore, (state) => state.downloads);
}

/** Grows with each model that came. */
export function useFetched(): number {
  return useStore(downloadsStore, (state) => state.numFetched);
}

/** Whether the server's owner lets pages have models fetched; who opened an app has no place to see that. */
export function useMayFetch(): boolean {
  return usePage((state) => state.me?.allows_downloads ?? false) && !openedApp();
}

export function isUnderWay({ state }: Download): boolean {
  return state === "waiting" || state === "fetching";
}

/** Shows how to get a model that a field or a problem asks for: dialogs belong to the canvas, elsewhere it is the tab. */
export function showGetModel(model: ModelSource): void {
  if (pageStore.getState().view === "build") openDialog("get_model", hubAddress(model));
  else go("models", hubAddress(model));
}

/** Read it from now on; once for all views. */
export function followDownloads(): void {
  if (isFollowing || !pageStore.getState().me?.allows_downloads) return;
  isFollowing = true;
  void readDownloads();
  liveStore.subscribe((state, before) => {
    if (state.downloads !== before.downloads || state.server !== before.server) void readDownloads();
  });
}

/** One request at a time; what changes meanwhile is read afterwards. */
export async function readDownloads(): Promise<void> {
  isStale = true;
  if (isReading) return;
  isReading = true;
  try {
    while (isStale) {
      isStale = false;
      take(await host.downloads());
    }
  } catch {
    // It is read again with the next change; what is refused says so itself.
  } finally {
    isReading = false;
  }
}

/** The newest list; models that came since the last one are told. */
export function take(downloads: readonly Download[]): void {
  const before = downloadsStore.getState();
  const came = cameSince(before.downloads, downloads);
  downloadsStore.setState({ downloads, numFetched: before.numFetched + came.length });
  came.forEach(({ model }) => toast({ kind: "success", text: t("models.came", { model }) }));
}

function cameSince(before: readonly Download[], now: readonly Download[]): Download[] {
  const waited = new Set(before.filter(isUnderWay).map(({ id }) => id));
  return now.filter(({ id, state }) => state === "done" && waited.has(id));
}
