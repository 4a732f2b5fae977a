/** Seeds that are new for each run, by "node.socket" or "$param". They stand in the layout, which no result depends on. */

import type { EditorGraph, Json } from "../../types";
import { own, withEntry, without } from "../record";

const MARK = "$seeds";

export function newSeedsOf({ rest }: Pick<EditorGraph, "rest">): string[] {
  const entry = own(rest, MARK);
  return Array.isArray(entry) ? entry.filter((key) => typeof key === "string") : [];
}

/** Have a seed be new for each run, or stay as it is. */
export function setSeedNew(graph: EditorGraph, key: string, isNew: boolean): EditorGraph {
  const keys = newSeedsOf(graph);
  if (keys.includes(key) === isNew) return graph;
  return withSeeds(graph, isNew ? [...keys, key] : keys.filter((other) => other !== key));
}

/** The graph with these seeds under other names. */
export function renameSeeds(graph: EditorGraph, renamed: (key: string) => string): EditorGraph {
  const keys = newSeedsOf(graph);
  return keys.length ? withSeeds(graph, keys.map(renamed)) : graph;
}

function withSeeds(graph: EditorGraph, keys: string[]): EditorGraph {
  return { ...graph, rest: keys.length ? withEntry<Json>(graph.rest, MARK, keys) : without(graph.rest, MARK) };
}
