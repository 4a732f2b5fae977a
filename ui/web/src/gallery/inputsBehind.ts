/** What the nodes behind a result were given, from the workflow as its run had it. */

import { titleOf } from "../graph/catalog";
import { flat } from "../graph/difference";
import { inOrder, needsOf } from "../graph/order";
import { own } from "../graph/record";
import { isLink, isParamRef, plainValue } from "../graph/values";
import type { Catalog, EditorGraph, Meant } from "../types";
import { shown } from "./sweeps/sweepTable";

/** A node, and the workflow in which it made a result. */
export interface Maker {
  graph: EditorGraph;
  node: string;
}

/**
 * "node.socket" with each value that is set on the maker and on what feeds it; params are told by their names. What was
 * `meant` by values that stand for something else comes in their place, and where nothing is set.
 */
export function inputsBehind({ graph, node }: Maker, meant: Meant = {}): { name: string; value: string }[] {
  const needed = needsOf(graph, node);
  const nodes = Object.entries(graph.nodes).filter(([name]) => needed.has(name));
  return nodes.flatMap(([name, { inputs }]) => {
    const told = flat(own(meant, name) ?? {});
    const set = Object.entries(inputs)
      .filter(([socket, value]) => !isLink(value) && !isParamRef(value) && !Object.hasOwn(told, socket))
      .map(([socket, value]) => ({ name: `${name}.${socket}`, value: shown(plainValue(graph, value)) }));
    const others = Object.entries(told).map(([socket, value]) => ({ name: `${name}.${socket}`, value: shown(value) }));
    return [...set, ...others];
  });
}

/** All values of one node in a run. */
export interface NodeValues {
  node: string;
  title: string;
  /** `isMeant`: the run chose it, where 0, "" or "auto" was written. */
  values: { socket: string; value: string; isMeant: boolean }[];
}

/** Every plain value of the maker and of what feeds it, as the run had it, in the order in which they ran. */
export function valuesBehind({ graph, node }: Maker, catalog: Catalog, inputs: Meant, meant: Meant): NodeValues[] {
  const needed = needsOf(graph, node);
  return inOrder(graph)
    .filter((name) => needed.has(name))
    .map((name) => ({
      node: name,
      title: titleOf(graph, catalog, name),
      values: Object.entries(flat(own(inputs, name) ?? {})).map(([socket, value]) => ({
        socket,
        value: shown(value),
        isMeant: Object.hasOwn(flat(own(meant, name) ?? {}), socket),
      })),
    }))
    .filter(({ values }) => values.length > 0);
}
