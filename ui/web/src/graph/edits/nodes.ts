/** Edits of nodes: add, rename, title, mode, collapse, declared outputs. */

import { renameSeeds } from "./seeds";
import type { EditorGraph, EditorNode, InputValue, Mode, NodeSpec, Point } from "../../types";
import { itemKey } from "../items";
import { isName } from "../names";
import { renameMembers } from "./frames";
import { changeRecord, has, mapRecord, own, renameKey, withEntry, without, withFields } from "../record";
import { isLink, joinTarget, splitTarget } from "../values";

export interface NewNode {
  name: string;
  spec: NodeSpec;
  at: Point;
  inputs?: Record<string, InputValue>;
}

/** Add a node. Its name must be fresh: `freshName(nameFrom(spec.title), ...)`. Inputs left out have their defaults. */
export function addNode(graph: EditorGraph, { name, spec, at, inputs = {} }: NewNode): EditorGraph {
  if (!isName(name) || has(graph.nodes, name)) return graph;
  const node: EditorNode = { type: spec.id, version: spec.version, title: "", mode: "run", inputs, at };
  return { ...graph, nodes: withEntry(graph.nodes, name, node) };
}

/** Change some nodes; the graph itself where none of them is there. */
export function changeNodes(
  graph: EditorGraph,
  names: Iterable<string>,
  change: (node: EditorNode, name: string) => EditorNode,
): EditorGraph {
  const wanted = new Set(names);
  const nodes = changeRecord(graph.nodes, (node, name) => (wanted.has(name) ? change(node, name) : node));
  return withFields(graph, { nodes });
}

/** The node without the list that it goes through at an input. */
export function withoutEach(node: EditorNode, socket: string): EditorNode {
  const { each = {}, ...rest } = node;
  const left = without(each, socket);
  return Object.keys(left).length ? { ...rest, each: left } : rest;
}

export function setTitle(graph: EditorGraph, name: string, title: string): EditorGraph {
  return changeNodes(graph, [name], (node) => withFields(node, { title }));
}

export function setMode(graph: EditorGraph, names: Iterable<string>, mode: Mode): EditorGraph {
  return changeNodes(graph, names, (node) => withFields(node, { mode }));
}

export function setCollapsed(graph: EditorGraph, names: Iterable<string>, collapsed: boolean): EditorGraph {
  return changeNodes(graph, names, (node) => {
    if ((node.collapsed ?? false) === collapsed) return node;
    const { collapsed: _, ...rest } = node;
    return collapsed ? { ...rest, collapsed } : rest;
  });
}

/** Whether the simple view shows its results. */
export function setShown(graph: EditorGraph, name: string, isShown: boolean): EditorGraph {
  return changeNodes(graph, [name], ({ isUnshown: _, ...rest }) => (isShown ? rest : { ...rest, isUnshown: true }));
}

/** Give a node another name; every link to it follows. A name that is taken or illegal changes nothing. */
export function rename(graph: EditorGraph, from: string, to: string): EditorGraph {
  if (from === to || !isName(to) || !has(graph.nodes, from) || has(graph.nodes, to)) return graph;
  const moved = (target: string): string => {
    const [node, socket] = splitTarget(target);
    return node === from ? joinTarget(to, socket) : target;
  };
  const follow = <T>(value: T): T => (isLink(value) ? { ...value, from: moved(value.from) } : value);
  const seeded = renameSeeds(graph, moved);
  return {
    ...seeded,
    nodes: mapRecord(renameKey(graph.nodes, from, to), (node) => ({ ...node, inputs: mapRecord(node.inputs, follow) })),
    outputs: mapRecord(graph.outputs, follow),
    reroutes: mapRecord(graph.reroutes, (reroute) => ({ ...reroute, from: moved(reroute.from) })),
    via: Object.fromEntries(Object.entries(graph.via).map(([input, id]) => [moved(input), id])),
    groups: renameMembers(graph.groups, (key) => (key === itemKey("node", from) ? itemKey("node", to) : key)),
    rest: has(seeded.rest, to) ? seeded.rest : renameKey(seeded.rest, from, to),
  };
}

/** Declare an output ("node.socket") of the workflow under a name; null takes the declaration back. */
export function setOutput(graph: EditorGraph, name: string, from: string | null): EditorGraph {
  if (from === null) {
    return has(graph.outputs, name) ? { ...graph, outputs: without(graph.outputs, name) } : graph;
  }
  if (!isName(name) || own(graph.outputs, name)?.from === from) return graph;
  return { ...graph, outputs: withEntry(graph.outputs, name, { from }) };
}
