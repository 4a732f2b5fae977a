/** Seeds: new ones, and which of them change with each run. */

import { useStore } from "zustand";
import { createStore } from "zustand/vanilla";
import { isDigits, limitOf } from "../../exact";
import type { EditorGraph } from "../../types";

/** Ten digits at most: easy to read aloud and to type again. */
const MAX_SEED = 2 ** 32 - 1;

interface Changing {
  /** "node.socket" of an input, or "$param". */
  keys: ReadonlySet<string>;
}

const changing = createStore<Changing>(() => ({ keys: new Set() }));

/** A random one in the range that its input takes. */
export function newSeed({ min, max }: { min?: number | null; max?: number | null } = {}): number {
  const least = min ?? 0;
  const most = Math.min(max ?? Infinity, least + MAX_SEED);
  const drawn = crypto.getRandomValues(new Uint32Array(1))[0] ?? 0;
  return least + (drawn % (most - least + 1));
}

/** Whether the seed stays as it is from run to run. */
export function useIsKept(key: string): boolean {
  return useStore(changing, (state) => !state.keys.has(key));
}

export function setKept(key: string, isKept: boolean): void {
  changing.setState(({ keys }) => {
    const next = new Set(keys);
    if (isKept) next.delete(key);
    else next.add(key);
    return { keys: next };
  });
}

export function isKept(key: string): boolean {
  return !changing.getState().keys.has(key);
}

/** The graph with a new number in every seed that changes with each run; the same object where none does. */
export function withNewSeeds(graph: EditorGraph): EditorGraph {
  let next = graph;
  for (const key of changing.getState().keys) {
    const [node = "", socket = ""] = key.split(".");
    const param = next.params[key.slice(1)];
    const found = next.nodes[node];
    if (key.startsWith("$") && param) {
      next = {
        ...next,
        params: {
          ...next.params,
          [key.slice(1)]: { ...param, default: newSeed({ min: limitOf(param.min), max: limitOf(param.max) }) },
        },
      };
    } else if (found && (typeof (found.inputs[socket] ?? 0) === "number" || isDigits(found.inputs[socket]))) {
      const inputs = { ...found.inputs, [socket]: newSeed() };
      next = { ...next, nodes: { ...next.nodes, [node]: { ...found, inputs } } };
    }
  }
  return next;
}
