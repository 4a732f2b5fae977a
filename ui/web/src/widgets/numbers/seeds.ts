/** Seeds: new ones, and which of them change with each run. */

import { useStore } from "zustand";
import { createStore } from "zustand/vanilla";
import { isDigits, limitOf } from "../../exact";
import { newSeedsOf, setSeedNew, withMovingSeeds } from "../../graph/edits/seeds";
import { own } from "../../graph/record";
import { t } from "../../i18n";
import { edit, useEditor } from "../../store/editor";
import type { Catalog, EditorGraph } from "../../types";

/** Ten digits at most: easy to read aloud and to type again. */
const MAX_SEED = 2 ** 32 - 1;

/** What the keys of seeds in a form begin with. */
const FORM = "#";

interface Changing {
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

/** Whether the seed stays as it is from run to run. Those of workflows are kept in them, those of forms here. */
export function useIsKept(key: string): boolean {
  const isOfForm = useStore(changing, (state) => state.keys.has(key));
  const isOfGraph = useEditor((state) => newSeedsOf(state.graph).includes(key));
  return !(key.startsWith(FORM) ? isOfForm : isOfGraph);
}

export function setKept(key: string, isKept: boolean): void {
  if (!key.startsWith(FORM)) {
    edit(t("widgets.keep_seed"), (graph) => setSeedNew(graph, key, !isKept));
    return;
  }
  changing.setState(({ keys }) => {
    const next = new Set(keys);
    if (isKept) next.delete(key);
    else next.add(key);
    return { keys: next };
  });
}

/** Of a form's seed. */
export function isKept(key: string): boolean {
  return !changing.getState().keys.has(key);
}

/** The graph with a new number in every seed that nothing feeds, this once. */
export function withSeedsThrown(graph: EditorGraph, catalog: Catalog): EditorGraph {
  return { ...withNewSeeds(withMovingSeeds(graph, catalog)), meta: graph.meta, rest: graph.rest };
}

/** The graph with a new number in every seed that changes with each run; the same object where none does. */
export function withNewSeeds(graph: EditorGraph): EditorGraph {
  let next = graph;
  for (const key of newSeedsOf(graph)) {
    const [node = "", socket = ""] = key.split(".");
    const param = own(next.params, key.slice(1));
    const found = own(next.nodes, node);
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
