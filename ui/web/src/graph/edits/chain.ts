/** Chains of nodes that change one value, such as LoRAs on a model. */

import type { EditorGraph, InputValue, NodeSpec, Point } from "../../types";
import { has } from "../record";
import { joinTarget } from "../values";
import { rewired } from "./fold";
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
  const moved = rewired(graph, (from) => (from === old ? now : from));
  const inputs: Record<string, InputValue> = { [takes]: { from: old } };
  return addNode(moved, { name, spec, at, inputs });
}
