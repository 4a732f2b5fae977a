/** Nodes that put a LoRA on a model: which model that is, and which prompts are read with it. */

import type { Catalog, EditorGraph, NodeSpec } from "../types";
import { nodeSpec } from "./catalog";
import { has, own } from "./record";
import { isLink, joinTarget, plainValue, splitTarget } from "./values";

const MODEL = "Model";
const PROMPT = "prompt";

/** The sockets of a node that puts a LoRA on a model. */
export interface LoraSockets {
  path: string;
  model: string;
  gives: string;
}

/** What Load Model takes. */
export interface ModelSource {
  source: string;
  revision: string;
}

/** null for a node that puts no LoRA on a model. */
export function loraSockets(spec: NodeSpec | undefined): LoraSockets | null {
  const path = spec?.inputs.find(({ widget }) => widget === "lora");
  const model = spec?.inputs.find(({ type }) => type === MODEL);
  const gives = spec?.outputs.find(({ type }) => type === MODEL);
  return path && model && gives ? { path: path.name, model: model.name, gives: gives.name } : null;
}

/** The model at the beginning of a node's chain; null where it is not written there, but comes by a wire or a list. */
export function modelBehind(graph: EditorGraph, catalog: Catalog, node: string): ModelSource | null {
  const first = loaderOf(graph, catalog, node);
  const socket = first && nodeSpec(graph, catalog, first)?.inputs.find(({ widget }) => widget === "model");
  if (!socket || own(own(graph.nodes, first)?.each ?? {}, socket.name)) return null;
  const { inputs = {} } = own(graph.nodes, first) ?? {};
  const held = own(inputs, socket.name);
  const source = isLink(held) ? "" : (plainValue(graph, held) ?? socket.default);
  const revision = plainValue(graph, own(inputs, "revision"));
  return typeof source === "string" && source
    ? { source, revision: typeof revision === "string" ? revision : "" }
    : null;
}

/** The prompts ("node.socket") that are read by a node's model; where none is, those of the model without it. */
export function promptsOf(graph: EditorGraph, catalog: Catalog, node: string): string[] {
  const found = promptsAfter(graph, catalog, node);
  const first = found.length ? null : loaderOf(graph, catalog, node);
  return first ? promptsAfter(graph, catalog, first) : found;
}

/** The node that a chain of models begins with; null where that is not in the graph. */
function loaderOf(graph: EditorGraph, catalog: Catalog, node: string): string | null {
  const seen = new Set<string>();
  let name = node;
  while (!seen.has(name)) {
    seen.add(name);
    const socket = nodeSpec(graph, catalog, name)?.inputs.find(({ type }) => type === MODEL);
    if (!socket) return has(graph.nodes, name) ? name : null;
    const held = own(own(graph.nodes, name)?.inputs ?? {}, socket.name);
    if (!isLink(held)) return null;
    name = splitTarget(held.from)[0];
  }
  return null;
}

/** Of all nodes that the node's model reaches, through those that change it too. */
function promptsAfter(graph: EditorGraph, catalog: Catalog, node: string): string[] {
  const found: string[] = [];
  const reached = new Set([node]);
  for (const source of reached) {
    const gives = (nodeSpec(graph, catalog, source)?.outputs ?? []).filter(({ type }) => type === MODEL);
    const outputs = new Set(gives.map(({ name }) => joinTarget(source, name)));
    for (const [name, { inputs }] of Object.entries(graph.nodes)) {
      if (reached.has(name) || !Object.values(inputs).some((value) => isLink(value) && outputs.has(value.from)))
        continue;
      reached.add(name);
      const prompt = nodeSpec(graph, catalog, name)?.inputs.find((input) => input.name === PROMPT);
      if (prompt?.widget === "multiline") found.push(joinTarget(name, PROMPT));
    }
  }
  return found;
}
