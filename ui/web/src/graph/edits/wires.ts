/** Edits of inputs: links and values. */

import type { EditorGraph, InputValue } from "../../types";
import { has, own, withEntry, without } from "../record";
import { isLink, joinTarget, splitTarget } from "../values";
import { changeNodes, withoutEach } from "./nodes";
import { rootOf, tidyReroutes } from "./reroutes";
import { setSeedNew } from "./seeds";

/** Link an output ("node.socket", or "$id": through that reroute) to an input; ask `canConnect` first. */
export function connect(graph: EditorGraph, from: string, to: string): EditorGraph {
  const [node, socket] = splitTarget(to);
  const source = rootOf(graph, from);
  if (!source || !has(graph.nodes, node)) return graph;
  const linked = setInput(graph, node, socket, { from: source });
  const via = from.startsWith("$") ? withEntry(linked.via, to, from.slice(1)) : without(linked.via, to);
  return tidyReroutes({ ...linked, via });
}

/** Take the wire into an input ("node.socket") away. */
export function disconnect(graph: EditorGraph, to: string): EditorGraph {
  const [node, socket] = splitTarget(to);
  const inputs = own(graph.nodes, node)?.inputs;
  return inputs && isLink(own(inputs, socket)) ? setInput(graph, node, socket, undefined) : graph;
}

/** Give an input a value, a link or a param; undefined brings its default back. A seed that is set stays as it is. */
export function setInput(graph: EditorGraph, node: string, socket: string, value: InputValue | undefined): EditorGraph {
  const changed = changeNodes(graph, [node], (old) => {
    if (value === undefined) {
      return has(old.inputs, socket) ? { ...old, inputs: without(old.inputs, socket) } : old;
    }
    const node = old.each && has(old.each, socket) ? withoutEach(old, socket) : old;
    return own(old.inputs, socket) === value ? node : { ...node, inputs: withEntry(old.inputs, socket, value) };
  });
  return changed === graph ? graph : tidyReroutes(setSeedNew(changed, joinTarget(node, socket), false));
}
