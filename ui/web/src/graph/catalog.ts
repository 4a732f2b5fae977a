/** Looking things up in the catalog of nodes. */

import type { Catalog, EditorGraph, InputSpec, NodeSpec, OutputSpec } from "../types";
import { own } from "./record";
import { splitTarget } from "./values";

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
  return found && specOf(catalog, found.type);
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

/** What people call a node: its own title, else its type's. */
export function titleOf(graph: EditorGraph, catalog: Catalog, node: string): string {
  const found = own(graph.nodes, node);
  return found?.title || (found && specOf(catalog, found.type)?.title) || found?.type || node;
}
