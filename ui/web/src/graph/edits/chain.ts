/** Chains of nodes that change one value, such as LoRAs on a model. */

import type { EditorGraph, InputValue, NodeSpec, Point } from "../../types";
import { has, mapRecord } from "../record";
import { isLink, joinTarget } from "../values";
import { addNode } from "./nodes";

interface Behind {
  /** The node that it comes behind. */
  node: string;
  spec: NodeSpec;
  name: string;
  at: Point;
  /** The socket that takes the value, and the one that gives it on. */
  takes: string;
  gives: string;
}

/** Put a node of the same kind behind one: who took that one's value takes the new one's. */
export function addBehind(graph: EditorGraph, { node, spec, name, at, takes, gives }: Behind): EditorGraph {
  if (!has(graph.nodes, node) || has(graph.nodes, name)) return graph;
  const [old, now] = [joinTarget(node, gives), joinTarget(name, gives)];
  const follow = <T>(value: T): T => (isLink(value) && value.from === old ? { ...value, from: now } : value);
  const moved: EditorGraph = {
    ...graph,
    nodes: mapRecord(graph.nodes, (each) => ({ ...each, inputs: mapRecord(each.inputs, follow) })),
    outputs: mapRecord(graph.outputs, follow),
    reroutes: mapRecord(graph.reroutes, (each) => (each.from === old ? { ...each, from: now } : each)),
  };
  const inputs: Record<string, InputValue> = { [takes]: { from: old } };
  return addNode(moved, { name, spec, at, inputs });
}
