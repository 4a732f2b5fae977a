/** What differs between two workflows, node by node: nodes that are only in one, values, wires, modes. */

import { asRead } from "../exact";
import type { Catalog, EditorGraph, EditorNode, Json, Meant } from "../types";
import { specFor, titleOf } from "./catalog";
import { needsOf } from "./order";
import { own } from "./record";
import { topOf } from "./subs";
import { isLink, isParamRef, plainValue, splitTarget } from "./values";

/** A workflow, and what is known of it. */
export interface Side {
  graph: EditorGraph;
  /** What 0, "" and "auto" were, or will be. */
  meant?: Meant;
  /** The node that made a result: only it and what feeds it is looked at. */
  end?: string;
}

export interface Difference {
  kind: "value" | "wire" | "mode" | "added" | "removed";
  /** "node.socket" or "node"; of nodes with two names both. */
  name: string;
  a: string;
  b: string;
  /** The param that sets the input on both sides. */
  param?: string;
}

type Pair = readonly [string, string];

/** The rows come in the order of A's nodes, then what is only in B. */
export function differences(a: Side, b: Side, catalog: Catalog): Difference[] {
  const pairs = pairsOf(a, b);
  const partner = new Map(pairs);
  const both = pairs.flatMap((pair) => ofPair(a, b, pair, { catalog, partner }));
  const found = new Set(partner.values());
  const removed = namesOf(a).filter((name) => !partner.has(name));
  const added = namesOf(b).filter((name) => !found.has(name));
  return [
    ...both,
    ...removed.map((name) => only("removed", name, titleOf(a.graph, catalog, name))),
    ...added.map((name) => only("added", name, titleOf(b.graph, catalog, name))),
  ];
}

function only(kind: "added" | "removed", name: string, title: string): Difference {
  return { kind, name, a: kind === "removed" ? title : "", b: kind === "added" ? title : "" };
}

/** Which node of A is which of B: along the wires from the ends, then by name, then by type and likeness. */
export function pairsOf(a: Side, b: Side): Pair[] {
  const [namesA, namesB] = [namesOf(a), namesOf(b)];
  const left = { a: new Set(namesA), b: new Set(namesB) };
  const pairs: Pair[] = [];
  const pair = (nameA: string, nameB: string): void => {
    const waiting: Pair[] = [[nameA, nameB]];
    for (const [ofA, ofB] of waiting) {
      const [nodeA, nodeB] = [own(a.graph.nodes, ofA), own(b.graph.nodes, ofB)];
      if (!nodeA || nodeA.type !== nodeB?.type || !left.a.has(ofA) || !left.b.has(ofB)) continue;
      left.a.delete(ofA);
      left.b.delete(ofB);
      pairs.push([ofA, ofB]);
      waiting.push(...along(nodeA, nodeB));
    }
  };
  if (a.end && b.end) pair(topOf(a.end), topOf(b.end));
  for (const name of namesA) if (left.b.has(name)) pair(name, name);
  for (const name of namesA) {
    if (!left.a.has(name)) continue;
    const node = a.graph.nodes[name] as EditorNode;
    const alike = [...left.b].map((other) => ({ other, points: likeness(node, b.graph.nodes[other] as EditorNode) }));
    const best = alike.sort((x, y) => y.points - x.points)[0];
    if (best && best.points >= 0) pair(name, best.other);
  }
  const order = new Map(namesA.map((name, index) => [name, index]));
  return pairs.sort((x, y) => (order.get(x[0]) ?? 0) - (order.get(y[0]) ?? 0));
}

function namesOf({ graph, end }: Side): string[] {
  const needed = end === undefined ? null : needsOf(graph, topOf(end));
  return Object.keys(graph.nodes).filter((name) => needed === null || needed.has(name));
}

function along(a: EditorNode, b: EditorNode): Pair[] {
  return Object.entries(a.inputs).flatMap(([socket, value]): Pair[] => {
    const other = own(b.inputs, socket);
    return isLink(value) && isLink(other) ? [[splitTarget(value.from)[0], splitTarget(other.from)[0]]] : [];
  });
}

/** How many inputs are equal; -1 for another type. */
function likeness(a: EditorNode, b: EditorNode): number {
  if (a.type !== b.type) return -1;
  const isSame = ([socket, value]: [string, unknown]): boolean =>
    JSON.stringify(value) === JSON.stringify(own(b.inputs, socket));
  return Object.entries(a.inputs).filter(isSame).length;
}

function ofPair(
  a: Side,
  b: Side,
  [nameA, nameB]: Pair,
  { catalog, partner }: { catalog: Catalog; partner: ReadonlyMap<string, string> },
): Difference[] {
  const [nodeA, nodeB] = [a.graph.nodes[nameA] as EditorNode, b.graph.nodes[nameB] as EditorNode];
  const rows: Difference[] = [];
  const tell = (kind: Difference["kind"], what: string, ofA: string, ofB: string, param?: string): void => {
    const name = nameA === nameB ? nameA + what : `${nameA}${what} / ${nameB}${what}`;
    if (ofA !== ofB) rows.push({ kind, name, a: ofA, b: ofB, ...(param !== undefined && { param }) });
  };
  tell("mode", "", nodeA.mode, nodeB.mode);
  for (const socket of new Set([
    ...Object.keys(nodeA.inputs),
    ...Object.keys(nodeB.inputs),
    ...told(a, nameA),
    ...told(b, nameB),
  ])) {
    const [valueA, valueB] = [own(nodeA.inputs, socket), own(nodeB.inputs, socket)];
    if (isLink(valueA) || isLink(valueB)) {
      const isSame = isLink(valueA) && isLink(valueB) && sameSource(valueA.from, valueB.from, partner);
      if (!isSame) tell("wire", `.${socket}`, source(a, nameA, socket, catalog), source(b, nameB, socket, catalog));
      continue;
    }
    const param = isParamRef(valueA) && isParamRef(valueB) && valueA.param === valueB.param ? valueA.param : undefined;
    tell("value", `.${socket}`, held(a, nameA, socket, catalog), held(b, nameB, socket, catalog), param);
  }
  return rows;
}

function sameSource(a: string, b: string, partner: ReadonlyMap<string, string>): boolean {
  const [[nodeA, outA], [nodeB, outB]] = [splitTarget(a), splitTarget(b)];
  return outA === outB && partner.get(nodeA) === nodeB;
}

/** Where a wire comes from, else the value in its place. */
function source(side: Side, node: string, socket: string, catalog: Catalog): string {
  const value = own(side.graph.nodes[node]?.inputs ?? {}, socket);
  return isLink(value) ? value.from : held(side, node, socket, catalog);
}

function told({ meant }: Side, node: string): string[] {
  return Object.keys(flat(own(meant ?? {}, node) ?? {}));
}

/** What an input was, will be, or holds; where it holds nothing, what its node takes then. */
function held({ graph, meant }: Side, node: string, socket: string, catalog: Catalog): string {
  const found = graph.nodes[node] as EditorNode;
  const known = own(flat(own(meant ?? {}, node) ?? {}), socket);
  if (known !== undefined) return asRead(known);
  const value = own(found.inputs, socket);
  const usual = specFor(graph, catalog, found)?.inputs.find((input) => input.name === socket)?.default;
  return asRead((value === undefined ? usual : plainValue(graph, value)) ?? "");
}

/** What holds at an open wire counts as the node's own. */
export function flat(values: Readonly<Record<string, unknown>>): Record<string, Json> {
  const each = Object.entries(values).map(([name, value]) =>
    typeof value === "object" && value !== null && !Array.isArray(value) ? value : { [name]: value },
  );
  return Object.assign({}, ...each) as Record<string, Json>;
}
