/** The ways of wires as the router last told them. */

import { useStore } from "zustand";
import { createStore } from "zustand/vanilla";
import { asset, address } from "../../http";
import { canvasUi } from "../canvasUi";
import type { Answered, Asked, Path } from "./geometry";

interface Routes {
  /** By edge id; null: there is no way round the nodes, undefined: not told yet. */
  paths: Readonly<Record<string, Path | null | undefined>>;
  /** Something was told, or nothing will be: wires need not wait any longer. */
  isTold: boolean;
}

const NOTHING: Routes = { paths: {}, isTold: false };

export const routesStore = createStore<Routes>(() => NOTHING);

export function useRoute(id: string): Path | null | undefined {
  return useStore(routesStore, ({ paths }) => paths[id]);
}

export function useIsTold(): boolean {
  return useStore(routesStore, ({ isTold }) => isTold);
}

let worker: Worker | null = null;
let revision = 0;
let isBusy = false;
/** What was asked last while the router was at work. It cannot be interrupted, and a queue of its questions would keep it
 * busy with canvases that are no longer shown. */
let next: Asked | null = null;

/** Ask for the ways; what was asked before is then out of date, and left out where the router has not begun it. */
export function askRoutes(question: Omit<Asked, "revision">): void {
  next = { ...question, revision: ++revision };
  if (!isBusy) sendNext();
}

function sendNext(): void {
  isBusy = next !== null;
  if (!next) return;
  worker ??= startWorker();
  worker.postMessage(next);
  next = null;
}

/** Another workflow is shown, whose wires wait until they are routed. */
export function forgetRoutes(): void {
  revision++;
  routesStore.setState(NOTHING);
}

/** Wires are drawn as they are known. */
export function stopWaiting(): void {
  routesStore.setState({ isTold: true });
}

/** The canvas says that wires are being routed, or will be: for tests, that wait for it. */
export function markRouting(isRouting: boolean): void {
  canvasUi.getState().box?.toggleAttribute("data-routing", isRouting);
}

function startWorker(): Worker {
  const made = new Worker(address(asset("loom.router.js")), { type: "module", name: "router" });
  made.onmessage = ({ data }: MessageEvent<Answered>) => {
    sendNext();
    if (data.revision !== revision) return;
    markRouting(false);
    const { paths } = routesStore.getState();
    // The same path stays the same object: a wire that did not move is not drawn again.
    const kept = Object.entries(data.paths).map(([id, path]) => [id, isSame(paths[id], path) ? paths[id] : path]);
    routesStore.setState({ paths: Object.fromEntries(kept), isTold: true });
  };
  made.onerror = stopWaiting;
  return made;
}

function isSame(a: Path | null | undefined, b: Path | null): boolean {
  return (
    !!a && !!b && a.length === b.length && a.every((point, at) => point[0] === b[at]?.[0] && point[1] === b[at][1])
  );
}
