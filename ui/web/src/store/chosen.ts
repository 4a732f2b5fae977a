/** Sockets that depend on a node's values: the server is asked once for each choice that stands in the graph. */

import { choiceOf, specOf, type Choice } from "../graph/catalog";
import { host } from "../host";
import type { EditorGraph, NodeSpec } from "../types";
import { editorStore, setCatalog, toldCatalog } from "./editor";

const asked = new Set<string>();

/** From now on, whenever the graph or the catalog changes. */
export function keepChosen(): void {
  const ask = () => {
    const { graph, catalog } = editorStore.getState();
    for (const { spec, choice } of choicesOf(graph, (type) => specOf(catalog, type))) {
      if (asked.has(choice.key)) continue;
      asked.add(choice.key);
      void learn(spec.id, choice);
    }
  };
  ask();
  editorStore.subscribe((state, before) => {
    if (state.graph !== before.graph) ask();
  });
}

/** The choices that nodes of a graph make. */
export function choicesOf(
  graph: EditorGraph,
  specOfType: (type: string) => NodeSpec | undefined,
): { spec: NodeSpec; choice: Choice }[] {
  return Object.values(graph.nodes).flatMap((node) => {
    const spec = specOfType(node.type);
    const choice = spec ? choiceOf(graph, spec, node) : null;
    return spec && choice ? [{ spec, choice }] : [];
  });
}

/** What cannot be chosen, the checker tells; the node then has the sockets that it always has. */
async function learn(type: string, { key, values }: Choice): Promise<void> {
  try {
    const spec = await host.sockets(type, values);
    const catalog = toldCatalog();
    setCatalog({ ...catalog, chosen: { ...catalog.chosen, [key]: spec } });
  } catch {
    asked.delete(key);
  }
}
