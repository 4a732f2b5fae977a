/** The models of the server's machine: read once for the whole page, and again when somebody asks. */

import { useEffect } from "react";
import { useStore } from "zustand";
import { createStore } from "zustand/vanilla";
import { sentence } from "../host";
import { request } from "../http";
import { downloadsStore } from "./downloadsStore";
import type { ModelsView } from "../types";

export interface ModelsState {
  view: ModelsView | null;
  isLoading: boolean;
  /** Why it could not be read. */
  error: string;
}

const store = createStore<ModelsState>(() => ({ view: null, isLoading: false, error: "" }));
/** Whether folders are to be looked at anew. */
let isStale = false;

downloadsStore.subscribe(({ numFetched }, before) => {
  if (numFetched !== before.numFetched && store.getState().view) void loadModels({ isFresh: true });
});

/** What is known now; the first to ask has it read. */
export function useModels(): ModelsState {
  const state = useStore(store);
  useEffect(() => {
    if (!store.getState().view) void loadModels();
  }, []);
  return state;
}

/** Read it again, one request at a time. `isFresh` has the server look at its folders anew, after a request that is
 * under way. */
export async function loadModels({ isFresh = false } = {}): Promise<void> {
  isStale ||= isFresh;
  if (store.getState().isLoading) return;
  store.setState({ isLoading: true, error: "" });
  try {
    do {
      const where = isStale ? "/models?refresh=1" : "/models";
      isStale = false;
      store.setState({ view: await request<ModelsView>("GET", where) });
    } while (isStale);
  } catch (error) {
    store.setState({ error: sentence(error) });
  } finally {
    store.setState({ isLoading: false });
  }
}
