/** Copy and paste with wires: a part of a workflow, as data and as text. */

import { parseExact, textExact } from "../../exact";
import type { EditorGraph, GraphFile, Point } from "../../types";
import { usedSubs, withSubs } from "../edits/fold";
import { renameMembers } from "../edits/frames";
import { tidyReroutes } from "../edits/reroutes";
import { idsOf, itemKey, parseItem } from "../items";
import { freshName } from "../names";
import { filterRecord, has, mapRecord, own } from "../record";
import { isLink, isParamRef, splitTarget } from "../values";
import { fromFile, isEmpty, toFile } from "./workflowFile";

const MARK = "latentloom_clip";
/** In the file of a part: the types of the nodes outside that feed it. */
const OUTSIDE = "latentloom_outside";
const MAX_TEXT = 4_000_000;

/** What was copied. */
export interface Clip {
  graph: EditorGraph;
  /** The types of the nodes outside that feed it: a wire from one stays where that node is. */
  sources: Record<string, string>;
}

/** The selected nodes, groups and notes, with the wires and params that they use. null where there are none. */
export function copy(graph: EditorGraph, keys: Iterable<string>): Clip | null {
  const all = [...keys];
  const [names, groups, notes] = [
    new Set(idsOf(all, "node")),
    new Set(idsOf(all, "group")),
    new Set(idsOf(all, "note")),
  ];
  const nodes = filterRecord(graph.nodes, (_, name) => names.has(name));
  const values = Object.values(nodes).flatMap((node) => Object.values(node.inputs));
  const params = new Set(values.filter(isParamRef).map((ref) => ref.param));
  const outside = new Set(values.filter(isLink).map((link) => splitTarget(link.from)[0]));
  const part: EditorGraph = {
    ...graph,
    nodes,
    params: filterRecord(graph.params, (_, name) => params.has(name)),
    groups: renameMembers(
      graph.groups.filter((group) => groups.has(group.id)),
      (key) => (all.includes(key) || key.startsWith("r:") ? key : ""),
    ),
    notes: graph.notes.filter((note) => notes.has(note.id)),
    via: filterRecord(graph.via, (_, input) => names.has(splitTarget(input)[0])),
    subs: usedSubs(graph, Object.values(nodes)),
    outputs: {},
    rest: {},
    schema: "",
    meta: {},
  };
  if (!Object.keys(nodes).length && !part.groups.length && !part.notes.length) return null;
  const sources = filterRecord(graph.nodes, (_, name) => outside.has(name) && !names.has(name));
  return { graph: tidyReroutes(part), sources: mapRecord(sources, (node) => node.type) };
}

export function clipText(clip: Clip): string {
  return textExact({ [MARK]: toFile(clip.graph), sources: clip.sources });
}

/** A clip as the file of a workflow, which pastes back with its wires. */
export function clipFile({ graph, sources }: Clip): string {
  const meta: EditorGraph["meta"] = Object.keys(sources).length ? { [OUTSIDE]: sources } : {};
  return `${textExact(toFile({ ...graph, meta }), 2)}\n`;
}

/** A copy of ours, or the file of a workflow; null for any other text. */
export function readClip(text: string): Clip | null {
  if (text.length > MAX_TEXT || !(text.includes(MARK) || text.includes('"format"'))) return null;
  try {
    if (!text.includes(MARK)) return clipOfFile(parseExact(text) as GraphFile);
    const { [MARK]: file, sources } = parseExact(text) as { [MARK]: GraphFile; sources: Record<string, string> };
    return { graph: fromFile(file), sources: sources ?? {} };
  } catch {
    return null;
  }
}

function clipOfFile(file: GraphFile): Clip | null {
  const outside = file.meta?.[OUTSIDE];
  const isRecord = typeof outside === "object" && outside !== null && !Array.isArray(outside);
  const sources = isRecord ? filterRecord(outside, (type) => typeof type === "string") : {};
  const graph = { ...fromFile(file), outputs: {}, rest: {}, schema: "", meta: {} };
  return isEmpty(graph) ? null : { graph, sources: sources as Record<string, string> };
}

/** Put a clip into a graph, its upper left corner at a place, under fresh names. `keys` are the new items. */
export function paste(into: EditorGraph, clip: Clip, at: Point): { graph: EditorGraph; keys: string[] } {
  const { graph, typeOf } = withSubs(into, clip.graph.subs);
  const part = moved(named(clip, graph), at);
  const added = Object.keys(part.nodes);
  const reaches = (from: string): boolean => {
    const name = splitTarget(from)[0];
    return has(part.nodes, name) || (has(graph.nodes, name) && graph.nodes[name]?.type === own(clip.sources, name));
  };
  const nodes = mapRecord(part.nodes, (node) => ({
    ...node,
    type: typeOf(node.type),
    inputs: filterRecord(node.inputs, (value) => !isLink(value) || reaches(value.from)),
  }));
  const whole: EditorGraph = {
    ...graph,
    params: { ...part.params, ...graph.params },
    nodes: { ...graph.nodes, ...nodes },
    groups: [...graph.groups, ...part.groups],
    notes: [...graph.notes, ...part.notes],
    reroutes: { ...graph.reroutes, ...part.reroutes },
    via: { ...graph.via, ...part.via },
  };
  const keys = [
    ...added.map((name) => itemKey("node", name)),
    ...part.groups.map((group) => itemKey("group", group.id)),
    ...part.notes.map((note) => itemKey("note", note.id)),
  ];
  return { graph: tidyReroutes(whole), keys };
}

/** The part with names that are fresh in a graph. */
function named({ graph: part, sources }: Clip, graph: EditorGraph): EditorGraph {
  const nodes = freshNames(Object.keys(part.nodes), (name) => has(graph.nodes, name) || has(sources, name));
  const reroutes = freshNames(Object.keys(part.reroutes), (id) => has(graph.reroutes, id));
  const groups = freshNames(
    part.groups.map((group) => group.id),
    (id) => graph.groups.some((old) => old.id === id),
  );
  const notes = freshNames(
    part.notes.map((note) => note.id),
    (id) => graph.notes.some((old) => old.id === id),
  );
  const target = (old: string): string => {
    const [node, socket] = splitTarget(old);
    return `${nodes(node)}.${socket}`;
  };
  const source = (old: string): string => (old.startsWith("$") ? `$${reroutes(old.slice(1))}` : target(old));
  const member = (key: string): string => {
    const { kind, id } = parseItem(key) ?? { kind: "wire", id: "" };
    if (kind === "node") return itemKey(kind, nodes(id));
    if (kind === "note") return itemKey(kind, notes(id));
    return kind === "reroute" ? itemKey(kind, reroutes(id)) : "";
  };
  const renamed = Object.entries(part.nodes).map(([name, node]) => {
    const inputs = mapRecord(node.inputs, (value) => (isLink(value) ? { from: target(value.from) } : value));
    return [nodes(name), { ...node, inputs }];
  });
  return {
    ...part,
    nodes: Object.fromEntries(renamed),
    groups: renameMembers(part.groups, member).map((group) => ({ ...group, id: groups(group.id) })),
    notes: part.notes.map((note) => ({ ...note, id: notes(note.id) })),
    reroutes: Object.fromEntries(
      Object.entries(part.reroutes).map(([id, { at, from }]) => [reroutes(id), { at, from: source(from) }]),
    ),
    via: Object.fromEntries(Object.entries(part.via).map(([input, id]) => [target(input), reroutes(id)])),
  };
}

function freshNames(names: string[], isTaken: (name: string) => boolean): (name: string) => string {
  const fresh = new Map<string, string>();
  const given = new Set<string>();
  for (const name of names) {
    const own = freshName(name, (wanted) => isTaken(wanted) || given.has(wanted));
    given.add(own);
    fresh.set(name, own);
  }
  return (name) => fresh.get(name) ?? name;
}

/** The part with its upper left corner at a place. */
function moved(part: EditorGraph, [x, y]: Point): EditorGraph {
  const frames = [...part.groups, ...part.notes].map(({ rect }): Point => [rect[0], rect[1]]);
  const places = [...Object.values(part.nodes).map((node) => node.at), ...frames];
  const [left, top] = [Math.min(...places.map((at) => at[0])), Math.min(...places.map((at) => at[1]))];
  const shift = (at: Point): Point => [at[0] - left + x, at[1] - top + y];
  const frame = <F extends { rect: [number, number, number, number] }>(item: F): F => ({
    ...item,
    rect: [...shift([item.rect[0], item.rect[1]]), item.rect[2], item.rect[3]],
  });
  return {
    ...part,
    nodes: mapRecord(part.nodes, (node) => ({ ...node, at: shift(node.at) })),
    groups: part.groups.map(frame),
    notes: part.notes.map(frame),
    reroutes: mapRecord(part.reroutes, (reroute) => ({ ...reroute, at: shift(reroute.at) })),
  };
}
