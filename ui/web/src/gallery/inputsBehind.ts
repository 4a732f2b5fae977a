/** What the nodes behind a result were given, from the workflow as its run had it. */

import { titleOf } from "../graph/catalog";
import { flat } from "../graph/difference";
import { behind } from "../graph/behind";
import { inOrder } from "../graph/order";
import { own } from "../graph/record";
import { isLink, isParamRef, plainValue } from "../graph/values";
import type { Catalog, EditorGraph, Meant } from "../types";
import { shown } from "./sweeps/sweepTable";

/** A node, and the workflow in which it made a result. */
export interface Maker {
  graph: EditorGraph;
  node: string;
  /** The node whose picture it is, where the maker saved a batch of several nodes' pictures. */
  part?: string;
}

/**
 * "node.socket" with each value that is set on the maker and on what feeds it; params are told by their names. What was
 * `meant` by values that stand for something else comes in their place, and where nothing is set.
 */
export function inputsBehind(
  { graph, node, part }: Maker,
  meant: Meant = {},
  inputs: Meant = {},
): { name: string; value: string }[] {
  const ran = Object.keys(inputs);
  const needed = behind(graph, ran, node, part);
  const inside = ran.filter((name) => name.includes("/") && needed.has(name));
  return [...ofFile(graph, needed, meant), ...inside.flatMap((name) => ofRun(name, inputs))];
}

/** Of nodes inside of sub-workflows and for-each, which only the run knows: all that they were given. */
function ofRun(name: string, inputs: Meant): { name: string; value: string }[] {
  const values = Object.entries(flat(own(inputs, name) ?? {}));
  return values.map(([socket, value]) => ({ name: `${name}.${socket}`, value: shown(value) }));
}

function ofFile(graph: EditorGraph, needed: ReadonlySet<string>, meant: Meant): { name: string; value: string }[] {
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
export function valuesBehind(
  { graph, node, part }: Maker,
  catalog: Catalog,
  inputs: Meant,
  meant: Meant,
): NodeValues[] {
  const ran = Object.keys(inputs);
  const needed = behind(graph, ran, node, part);
  return [...inOrder(graph), ...ran.filter((name) => name.includes("/"))]
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
