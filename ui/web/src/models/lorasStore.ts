/** The LoRAs of the server, and which fit a model: read for each model that is asked for, and again when somebody looks. */

import { useEffect } from "react";
import { useStore } from "zustand";
import { createStore } from "zustand/vanilla";
import type { ModelSource } from "../graph/loras";
import { own } from "../graph/record";
import { host } from "../host";
import type { LorasView } from "../types";

/** Of so many models what was told is kept. */
const MOST_KEPT = 20;

const store = createStore<{ views: Readonly<Record<string, LorasView>> }>(() => ({ views: {} }));
const asking = new Set<string>();

/** What is known of them for a model, null for any; read once somebody wants it. A field works without. */
export function useLoras(model: ModelSource | null, isWanted: boolean): LorasView | null {
  const key = keyOf(model);
  const view = useStore(store, ({ views }) => own(views, key)) ?? null;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the key is the model
  useEffect(() => {
    if (isWanted && !own(store.getState().views, key)) void loadLoras(model);
  }, [key, isWanted, view === null]);
  return view;
}

/** Read them, one request for a model at a time. `isFresh` has the server look at its folders anew. */
export async function loadLoras(model: ModelSource | null, isFresh = false): Promise<void> {
  const key = keyOf(model);
  if (asking.has(key)) return;
  asking.add(key);
  try {
    const view = await host.loras({ model: model?.source, revision: model?.revision, refresh: isFresh });
    const kept = Object.entries(store.getState().views).filter(([other]) => other !== key);
    store.setState({ views: Object.fromEntries([...kept.slice(1 - MOST_KEPT), [key, view]]) });
  } catch {
    return; // the field takes any file's name
  } finally {
    asking.delete(key);
  }
}

/** Have the server look at its folders anew; who shows some of them is told anew. */
export async function forgetLoras(): Promise<void> {
  await loadLoras(null, true);
  store.setState({ views: {} });
}

function keyOf(model: ModelSource | null): string {
  return JSON.stringify([model?.source ?? "", model?.revision ?? ""]);
}
