/** The picture that came of a node's work, where a node after it shows one. */

import { specOf } from "../../graph/catalog";
import { needsOf, sourcesOf } from "../../graph/order";
import type { Catalog, EditorGraph } from "../../types";
import { hasPicture } from "../look";

const found = new WeakMap<EditorGraph, Map<string, string[]>>();

/** What the nearest node after `name` shows; nodes that need another painter's work, too, do not count. */
export function shownAfter<T>(
  graph: EditorGraph,
  catalog: Catalog,
  name: string,
  shownAt: (node: string) => T | undefined,
): T | undefined {
  const known = found.get(graph) ?? new Map<string, string[]>();
  found.set(graph, known);
  const after = known.get(name) ?? nodesAfter(graph, catalog, name);
  known.set(name, after);
  for (const node of after) {
    const shown = shownAt(node);
    if (shown !== undefined) return shown;
  }
  return undefined;
}

/** From the nearest to the farthest. */
function nodesAfter(graph: EditorGraph, catalog: Catalog, name: string): string[] {
  const own = needsOf(graph, name);
  const isForeign = (node: string) =>
    [...needsOf(graph, node)].some((each) => {
      const spec = specOf(catalog, graph.nodes[each]?.type ?? "");
      return !own.has(each) && !!spec?.uses_device && hasPicture(spec);
    });
  const reached = new Set([name]);
  for (const node of reached) {
    for (const user of Object.keys(graph.nodes)) {
      if (!reached.has(user) && sourcesOf(graph, user).includes(node) && !isForeign(user)) reached.add(user);
    }
  }
  return [...reached].slice(1);
}
