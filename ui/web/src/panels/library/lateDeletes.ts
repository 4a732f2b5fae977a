/** Deleting with a way back: a workflow is gone from the list at once, and from the server a little later. */

import { useStore } from "zustand";
import { createStore } from "zustand/vanilla";
import { host, sentence } from "../../host";
import { toast } from "../../store/page";

const LATER_MS = 8000;

const pendingStore = createStore<{ ids: ReadonlySet<string> }>(() => ({ ids: new Set() }));
const timers = new Map<string, ReturnType<typeof setTimeout>>();

export function usePending(): ReadonlySet<string> {
  return useStore(pendingStore, (state) => state.ids);
}

export function deleteLater(id: string): void {
  pendingStore.setState(({ ids }) => ({ ids: new Set(ids).add(id) }));
  timers.set(
    id,
    setTimeout(() => void deleteNow(id), LATER_MS),
  );
}

export function undoDelete(id: string): void {
  clearTimeout(timers.get(id));
  forget(id);
}

/** Delete at once all that wait for it: nobody can take them back any more. */
export async function lateDeletes(): Promise<void> {
  for (const id of [...timers.keys()]) await deleteNow(id);
}

async function deleteNow(id: string): Promise<void> {
  clearTimeout(timers.get(id));
  timers.delete(id);
  try {
    await host.deleteWorkflow(id);
  } catch (error) {
    toast({ kind: "error", text: sentence(error) });
  }
  forget(id);
}

function forget(id: string): void {
  timers.delete(id);
  pendingStore.setState(({ ids }) => ({ ids: new Set([...ids].filter((other) => other !== id)) }));
}
