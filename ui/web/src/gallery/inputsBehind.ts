/** What the nodes behind a result were given, from the workflow as its run had it. */

import { specFor } from "../graph/catalog";
import { needsOf } from "../graph/order";
import { own } from "../graph/record";
import { isLink, isParamRef, plainValue, splitTarget } from "../graph/values";
import type { Catalog, EditorGraph, EditorNode, InputValue, Json, Meant } from "../types";
import type { Difference } from "./compare/differing";
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

/** What holds at an open wire counts as the node's own. */
function flat(values: Readonly<Record<string, unknown>>): Record<string, Json> {
  const each = Object.entries(values).map(([name, value]) =>
    typeof value === "object" && value !== null && !Array.isArray(value) ? value : { [name]: value },
  );
  return Object.assign({}, ...each) as Record<string, Json>;
}

/**
 * What differs between the nodes that made two results, and further back along the same sockets: so the nodes may have
 * other names, and branches that have no part in the results are left out.
 */
export function inputsApart(a: Maker, b: Maker, catalog: Catalog): Difference[] {
  const rows: Difference[] = [];
  const seen = new Set<string>();
  const waiting: [string, string][] = [[a.node, b.node]];
  for (const [nameA, nameB] of waiting) {
    const [nodeA, nodeB] = [own(a.graph.nodes, nameA), own(b.graph.nodes, nameB)];
    if (!nodeA || !nodeB || seen.has(`${nameA} ${nameB}`)) continue;
    seen.add(`${nameA} ${nameB}`);
    const tell = (what: string, ofA: string, ofB: string) => {
      const name = nameA === nameB ? nameA + what : `${nameA}${what} / ${nameB}${what}`;
      if (ofA !== ofB) rows.push({ name, a: ofA, b: ofB });
    };
    tell("", nodeA.type, nodeB.type);
    tell(" (mode)", nodeA.mode, nodeB.mode);
    for (const socket of new Set([...Object.keys(nodeA.inputs), ...Object.keys(nodeB.inputs)])) {
      const [valueA, valueB] = [own(nodeA.inputs, socket), own(nodeB.inputs, socket)];
      if (isSameParam(valueA, valueB)) continue;
      if (isLink(valueA) && isLink(valueB)) {
        const [sourceA, outA] = splitTarget(valueA.from);
        const [sourceB, outB] = splitTarget(valueB.from);
        tell(`.${socket}`, outA, outB);
        waiting.push([sourceA, sourceB]);
      } else tell(`.${socket}`, given(a.graph, nodeA, socket, catalog), given(b.graph, nodeB, socket, catalog));
    }
  }
  return rows;
}

function isSameParam(a: InputValue | undefined, b: InputValue | undefined): boolean {
  return isParamRef(a) && isParamRef(b) && a.param === b.param;
}

/** What an input holds; where it holds nothing, what its node takes then. */
function given(graph: EditorGraph, node: EditorNode, socket: string, catalog: Catalog): string {
  const value = own(node.inputs, socket);
  if (isLink(value)) return value.from;
  const usual = specFor(graph, catalog, node)?.inputs.find((input) => input.name === socket)?.default;
  return shown((value === undefined ? usual : plainValue(graph, value)) ?? "");
}
