/** Reroutes: points that wires are drawn through. The links stay in the nodes' inputs. */

import type { EditorGraph, Point, Reroute } from "../../types";
import { renameMembers } from "./frames";
import { filterRecord, has, mapRecord, own, withEntry, without } from "../record";
import { sourceOf } from "../values";

/** The output at the start of a chain of reroutes; an output is its own start, a broken or endless chain has "". */
export function rootOf(graph: EditorGraph, from: string): string {
  const seen = new Set<string>();
  let place = from;
  while (place.startsWith("$")) {
    if (seen.has(place)) return "";
    seen.add(place);
    place = own(graph.reroutes, place.slice(1))?.from ?? "";
  }
  return place;
}

/** Put a reroute into the wire of an input ("node.socket"), just before its end. */
export function addReroute(graph: EditorGraph, added: { id: string; input: string; at: Point }): EditorGraph {
  const link = sourceOf(graph, added.input);
  if (!link || has(graph.reroutes, added.id)) return graph;
  const before = own(graph.via, added.input);
  const reroute: Reroute = { at: added.at, from: before === undefined ? link : `$${before}` };
  return {
    ...graph,
    reroutes: withEntry(graph.reroutes, added.id, reroute),
    via: withEntry(graph.via, added.input, added.id),
  };
}

export function moveReroute(graph: EditorGraph, id: string, at: Point): EditorGraph {
  const reroute = own(graph.reroutes, id);
  return reroute ? { ...graph, reroutes: withEntry(graph.reroutes, id, { ...reroute, at }) } : graph;
}

/** Take a reroute out; its wires run from what was before it. */
export function removeReroute(graph: EditorGraph, id: string): EditorGraph {
  const removed = own(graph.reroutes, id);
  if (!removed) return graph;
  const before = removed.from.startsWith("$") ? removed.from.slice(1) : null;
  const reroutes = mapRecord(without(graph.reroutes, id), (reroute) =>
    reroute.from === `$${id}` ? { ...reroute, from: removed.from } : reroute,
  );
  const via = Object.entries(graph.via)
    .filter(([, through]) => through !== id || before !== null)
    .map(([input, through]) => [input, through === id ? before : through]);
  return { ...graph, reroutes, via: Object.fromEntries(via), groups: withoutGone(graph, reroutes) };
}

/** Without the ways that no longer lead from an input's own source, and without reroutes that nothing runs through. */
export function tidyReroutes(graph: EditorGraph): EditorGraph {
  const via = filterRecord(graph.via, (id, input) => {
    const source = sourceOf(graph, input);
    return source !== null && rootOf(graph, `$${id}`) === source;
  });
  const used = new Set<string>();
  for (let id of Object.values(via)) {
    while (!used.has(id)) {
      used.add(id);
      id = own(graph.reroutes, id)?.from.replace(/^\$/, "") ?? "";
    }
  }
  const reroutes = filterRecord(graph.reroutes, (_, id) => used.has(id));
  const isTidy =
    Object.keys(via).length === Object.keys(graph.via).length &&
    Object.keys(reroutes).length === Object.keys(graph.reroutes).length;
  return isTidy ? graph : { ...graph, via, reroutes, groups: withoutGone(graph, reroutes) };
}

function withoutGone(graph: EditorGraph, reroutes: EditorGraph["reroutes"]): EditorGraph["groups"] {
  const isGone = (key: string): boolean => key.startsWith("r:") && !has(reroutes, key.slice(2));
  return renameMembers(graph.groups, (key) => (isGone(key) ? "" : key));
}
