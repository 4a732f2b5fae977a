/** React Flow's edges made from the links in the editor's graph; a wire that did not change keeps its object. */

import type { Edge } from "@xyflow/react";
import { outputSpec } from "../../graph/catalog";
import { rootOf } from "../../graph/edits/reroutes";
import { itemKey } from "../../graph/items";
import { has, own } from "../../graph/record";
import { isLink, splitTarget } from "../../graph/values";
import type { Catalog, EditorGraph } from "../../types";
import { t } from "../../i18n";

export type WireEdge = Edge<{ type: string; isMuted: boolean }, "wire">;

interface End {
  key: string;
  handle: string;
}

/** The wires of a graph, reusing those of the last one. */
export function flowEdges(
  graph: EditorGraph,
  catalog: Catalog,
  selection: ReadonlySet<string>,
  last: readonly WireEdge[],
): readonly WireEdge[] {
  const old = new Map(last.map((edge) => [edge.id, edge]));
  const next: WireEdge[] = [];
  const put = (id: string, from: string, to: End, isMuted: boolean) => {
    const start = startOf(graph, from);
    if (!start) return;
    const type = outputSpec(graph, catalog, rootOf(graph, from))?.type ?? "";
    const isWire = !id.startsWith("e:$");
    const kept = old.get(id);
    const isKept =
      kept &&
      kept.source === start.key &&
      kept.sourceHandle === start.handle &&
      kept.selected === selection.has(id) &&
      kept.data?.type === type &&
      kept.data.isMuted === isMuted;
    if (isKept) next.push(kept);
    else
      next.push({
        id,
        type: "wire",
        source: start.key,
        sourceHandle: start.handle,
        target: to.key,
        targetHandle: to.handle,
        ariaLabel: t("canvas.wire_between", { from: endName(start.key, start.handle), to: endName(to.key, to.handle) }),
        selected: selection.has(id),
        selectable: isWire,
        reconnectable: isWire ? "target" : false,
        data: { type, isMuted },
      });
  };
  for (const [id, reroute] of Object.entries(graph.reroutes)) {
    put(`e:$${id}`, reroute.from, { key: itemKey("reroute", id), handle: "in" }, false);
  }
  for (const [name, node] of Object.entries(graph.nodes)) {
    for (const [socket, value] of Object.entries(node.inputs)) {
      if (!isLink(value)) continue;
      const target = `${name}.${socket}`;
      const via = own(graph.via, target);
      const from = via !== undefined && has(graph.reroutes, via) ? `$${via}` : value.from;
      const source = own(graph.nodes, splitTarget(value.from)[0]);
      const isMuted = node.mode === "mute" || source?.mode === "mute";
      put(itemKey("wire", target), from, { key: itemKey("node", name), handle: socket }, isMuted);
    }
  }
  const isUnchanged = next.length === last.length && next.every((edge, index) => edge === last[index]);
  return isUnchanged ? last : next;
}

function startOf(graph: EditorGraph, from: string): End | null {
  if (from.startsWith("$")) {
    const id = from.slice(1);
    return has(graph.reroutes, id) ? { key: itemKey("reroute", id), handle: "out" } : null;
  }
  const [name, socket] = splitTarget(from);
  return has(graph.nodes, name) ? { key: itemKey("node", name), handle: socket } : null;
}

/** The end of a wire as the graph names it: "node.socket", or "$id" of a reroute. */
export function endName(key: string, handle: string): string {
  return key.startsWith("r:") ? `$${key.slice(2)}` : `${key.slice(2)}.${handle}`;
}

const outputs = new WeakMap<EditorGraph, Map<string, string>>();

/** The outputs of a node that something is linked to, in one string: for nodes whose spec is not known. */
export function usedOutputs(graph: EditorGraph, name: string): string {
  let found = outputs.get(graph);
  if (!found) {
    const sets = new Map<string, Set<string>>();
    const links = [
      ...Object.values(graph.nodes).flatMap((node) => Object.values(node.inputs).filter(isLink)),
      ...Object.values(graph.outputs),
    ];
    for (const link of links) {
      const [node, socket] = splitTarget(link.from);
      sets.set(node, (sets.get(node) ?? new Set()).add(socket));
    }
    found = new Map([...sets].map(([node, sockets]) => [node, [...sockets].sort().join(" ")]));
    outputs.set(graph, found);
  }
  return found.get(name) ?? "";
}
