/** The workflow as a run had it: its graph with the run's values put in. */
import type { GraphFile, Overrides, Scalar } from "../types";

/** `overrides` are keyed by declared param, or by `node.socket`; what the graph does not have changes nothing. */
export function withValues(graph: GraphFile, overrides: Overrides): GraphFile {
  const made = structuredClone(graph);
  for (const [key, value] of Object.entries(overrides)) {
    const param = made.params?.[key];
    const [name = "", socket = ""] = key.split(".");
    const node = made.nodes[name];
    if (param) param.default = value as Scalar | null;
    else if (node && socket) node.inputs = { ...node.inputs, [socket]: isScalar(value) ? value : { value } };
  }
  return made;
}

function isScalar(value: unknown): value is Scalar {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean";
}
