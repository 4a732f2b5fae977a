/** Which wires are allowed, and which nodes fit the end of a loose one. */

import { t } from "../i18n";
import type { Catalog, EditorGraph, NodeSpec } from "../types";
import { inputSpec, nodeSpec, outputSpec, titleOf } from "./catalog";
import { rootOf } from "./edits/reroutes";
import feeds from "./feeds.json";
import { needsOf } from "./order";
import { has, own } from "./record";
import { splitTarget } from "./values";
import { spoken, spokenType } from "../parts/format";

/** Output types that feed another type besides their own. */
const FEEDS: Readonly<Record<string, string>> = feeds;

export type Side = "input" | "output";

/** Where a wire of a type may end: a node and its socket. */
export interface Fit {
  spec: NodeSpec;
  socket: string;
}

/** Whether an output of one type may be linked to an input of another, as the server's checker has it. */
export function canFeed(output: string, input: string): boolean {
  return output === input || own(FEEDS, output) === input;
}

/** Why an output ("node.socket", or "$id" of a reroute) cannot be linked to an input; "" where it can. */
export function canConnect(graph: EditorGraph, catalog: Catalog, from: string, to: string): string {
  const output = rootOf(graph, from);
  const [source, target] = [splitTarget(output)[0], splitTarget(to)[0]];
  if (!has(graph.nodes, source) || !has(graph.nodes, target)) return t("graph.no_such_node");
  if (source === target) return t("graph.same_node");
  return typeFault(graph, catalog, output, to) || cycleFault(graph, catalog, source, target);
}

/** The nodes that a loose wire of this type can end at, best first. `side` is the side that the wire was drawn from. */
export function fitting(catalog: Catalog, { type, side }: { type: string; side: Side }): Fit[] {
  const found = catalog.nodes.flatMap((spec) => {
    const sockets = side === "output" ? spec.inputs : spec.outputs;
    const fits = sockets.filter((socket) =>
      side === "output" ? canFeed(type, socket.type) : canFeed(socket.type, type),
    );
    const best = fits.find((socket) => socket.type === type) ?? fits[0];
    return best ? [{ spec, socket: best.name, isExact: best.type === type }] : [];
  });
  return found.sort((a, b) => Number(b.isExact) - Number(a.isExact)).map(({ spec, socket }) => ({ spec, socket }));
}

function typeFault(graph: EditorGraph, catalog: Catalog, output: string, input: string): string {
  const [source, target] = [splitTarget(output), splitTarget(input)];
  const gives = outputSpec(graph, catalog, output);
  const takes = inputSpec(graph, catalog, input);
  if (!gives && nodeSpec(graph, catalog, source[0])) {
    return t("graph.no_such_output", { node: titleOf(graph, catalog, source[0]), socket: spoken(source[1]) });
  }
  if (!takes && nodeSpec(graph, catalog, target[0])) {
    return t("graph.no_such_input", { node: titleOf(graph, catalog, target[0]), socket: spoken(target[1]) });
  }
  if (!gives || !takes || canFeed(gives.type, takes.type)) return "";
  return t("graph.wrong_type", {
    output: spoken(gives.name),
    gives: spokenType(gives.type),
    input: spoken(takes.name),
    takes: spokenType(takes.type),
  });
}

function cycleFault(graph: EditorGraph, catalog: Catalog, source: string, target: string): string {
  if (!needsOf(graph, source).has(target)) return "";
  return t("graph.cycle", { source: titleOf(graph, catalog, source), target: titleOf(graph, catalog, target) });
}
