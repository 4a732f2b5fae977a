/** Seeds that are new for each run that the page starts, by "node.socket" or "$param": those of new nodes and of templates,
until somebody sets or locks them. The mark stands in the file's `meta`, inside of a sub-workflow in its layout: it means
nothing to a run, and whoever runs the file elsewhere gets the seed that is written in it. */

import type { Catalog, EditorGraph, Json } from "../../types";
import { own, withEntry, without } from "../record";
import { nodeSpec } from "../catalog";
import { isLink, isParamRef } from "../values";

export const MARK = "$seeds";

export function newSeedsOf({ meta, rest }: Pick<EditorGraph, "meta" | "rest">): string[] {
  const entry = own(meta, MARK) ?? own(rest, MARK);
  return Array.isArray(entry) ? entry.filter((key) => typeof key === "string") : [];
}

/** Have a seed be new for each run, or stay as it is. */
export function setSeedNew(graph: EditorGraph, key: string, isNew: boolean): EditorGraph {
  const keys = newSeedsOf(graph);
  if (keys.includes(key) === isNew) return graph;
  return withSeeds(graph, isNew ? [...keys, key] : keys.filter((other) => other !== key));
}

/** Have all seeds of these nodes be new for each run; where a param sets one, the param. */
export function withMovingSeeds(
  graph: EditorGraph,
  catalog: Catalog,
  names: Iterable<string> = Object.keys(graph.nodes),
): EditorGraph {
  let next = graph;
  for (const name of names) {
    const { inputs = {}, each = {} } = own(graph.nodes, name) ?? {};
    for (const { name: socket, widget } of nodeSpec(graph, catalog, name)?.inputs ?? []) {
      const value = own(inputs, socket);
      if (widget !== "seed" || isLink(value) || own(each, socket)) continue;
      next = setSeedNew(next, isParamRef(value) ? `$${value.param}` : `${name}.${socket}`, true);
    }
  }
  return next;
}

/** The graph with these seeds under other names. */
export function renameSeeds(graph: EditorGraph, renamed: (key: string) => string | readonly string[]): EditorGraph {
  const keys = newSeedsOf(graph);
  return keys.length ? withSeeds(graph, [...new Set(keys.flatMap(renamed))]) : graph;
}

function withSeeds(graph: EditorGraph, keys: string[]): EditorGraph {
  const { meta } = graph;
  const rest = without(graph.rest, MARK); // where it stood before `meta` did
  return { ...graph, rest, meta: keys.length ? withEntry<Json>(meta, MARK, keys) : without(meta, MARK) };
}
