/** Looking things up in the catalog of nodes. */

import type { Catalog, EditorGraph, EditorNode, InputSpec, NodeSpec, OutputSpec } from "../types";
import { worded } from "../worded";
import { own } from "./record";
import { specIn, topOf } from "./subs";
import { plainValue, splitTarget } from "./values";

export const EMPTY_CATALOG: Catalog = { version: "", nodes: [], types: [] };

const byId = new WeakMap<Catalog, Map<string, NodeSpec>>();

/** The spec of a node type; undefined where it is not installed. */
export function specOf(catalog: Catalog, type: string): NodeSpec | undefined {
  let specs = byId.get(catalog);
  if (!specs) byId.set(catalog, (specs = new Map(catalog.nodes.map((spec) => [spec.id, spec]))));
  return specs.get(type);
}

/** The spec of a node of the graph. */
export function nodeSpec(graph: EditorGraph, catalog: Catalog, node: string): NodeSpec | undefined {
  const found = own(graph.nodes, node);
  return found && specFor(graph, catalog, found);
}

/** The spec of a node: where its sockets depend on its values, of these, once the server has told it. */
export function specFor(graph: EditorGraph, catalog: Catalog, node: EditorNode): NodeSpec | undefined {
  const spec = specIn(graph.subs, catalog, node.type);
  const choice = spec && choiceOf(graph, spec, node);
  return choice ? (catalog.chosen?.[choice.key] ?? spec) : spec;
}

export interface Choice {
  key: string;
  values: Record<string, string>;
}

/** What a node says at the inputs that decide its sockets; null where nothing depends on them. */
export function choiceOf(graph: EditorGraph, spec: NodeSpec, node: EditorNode): Choice | null {
  if (spec.chosen_by.length === 0) return null;
  const given = spec.chosen_by.map((name) => {
    const usual = spec.inputs.find((input) => input.name === name)?.default;
    return [name, String(plainValue(graph, own(node.inputs, name)) ?? usual ?? "")] as const;
  });
  return { key: JSON.stringify([spec.id, ...given]), values: Object.fromEntries(given) };
}

/** The spec of the input "node.socket". */
export function inputSpec(graph: EditorGraph, catalog: Catalog, input: string): InputSpec | undefined {
  const [node, socket] = splitTarget(input);
  return nodeSpec(graph, catalog, node)?.inputs.find((spec) => spec.name === socket);
}

/** The spec of the output "node.socket". */
export function outputSpec(graph: EditorGraph, catalog: Catalog, output: string): OutputSpec | undefined {
  const [node, socket] = splitTarget(output);
  return nodeSpec(graph, catalog, node)?.outputs.find((spec) => spec.name === socket);
}

/** The catalog with its texts in the page's language, as far as that has them. */
export function inWords(catalog: Catalog): Catalog {
  const chosen = Object.entries(catalog.chosen ?? {}).map(([key, spec]) => [key, nodeInWords(spec)] as const);
  return {
    ...catalog,
    nodes: catalog.nodes.map(nodeInWords),
    ...(catalog.chosen && { chosen: Object.fromEntries(chosen) }),
  };
}

function nodeInWords(spec: NodeSpec): NodeSpec {
  const helped = <T extends { help: string }>(socket: T): T => ({ ...socket, help: worded(socket.help) });
  return {
    ...spec,
    title: worded(spec.title),
    help: worded(spec.help),
    inputs: spec.inputs.map(helped),
    outputs: spec.outputs.map(helped),
  };
}

/** What people call a node: its own title, else its type's. */
export function titleOf(graph: EditorGraph, catalog: Catalog, node: string): string {
  const top = topOf(node);
  const found = own(graph.nodes, top);
  const title = found?.title || (found && specIn(graph.subs, catalog, found.type)?.title) || found?.type || top;
  return top === node ? title : `${title} ${node.slice(top.length + 1).replaceAll("/", " / ")}`;
}
