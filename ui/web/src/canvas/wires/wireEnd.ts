/** The end of a wire from React Flow's words (node id, handle id, handle type). */

import { inputSpec, outputSpec } from "../../graph/catalog";
import { rootOf } from "../../graph/edits/reroutes";
import { editorStore } from "../../store/editor";
import type { WireEnd } from "../canvasUi";
import { endName } from "../flow/flowEdges";

export function wireEndOf(id: string, handle: string, handleType: "source" | "target"): WireEnd | null {
  const { graph, catalog } = editorStore.getState();
  const name = endName(id, handle);
  const isOutput = handleType === "source";
  const spec = isOutput ? outputSpec(graph, catalog, rootOf(graph, name)) : inputSpec(graph, catalog, name);
  return spec ? { name, side: isOutput ? "output" : "input", type: spec.type } : null;
}
