/** A plan put into the workflow itself: its Parallel Plan node is changed, or one is put behind the model. */

import { specOf } from "../../graph/catalog";
import { addNode, giveValue, setInput } from "../../graph/edits";
import { freshName } from "../../graph/names";
import { has, own } from "../../graph/record";
import { sourceOf, splitTarget } from "../../graph/values";
import type { Catalog, EditorGraph, Point } from "../../types";

const PLAN_TYPE = "LoomParallelPlan";
const BELOW: Point = [40, 40];

export interface ChosenPlan {
  /** The node whose work is planned. */
  node: string;
  plan: string;
  devices: string;
}

/** The size of a node as it is drawn. */
type SizeOf = (node: string) => Point;

/** The Parallel Plan node that a node's model comes through; "" where there is none. */
export function planNodeOf(graph: EditorGraph, node: string): string {
  const seen = new Set<string>();
  for (let name = node; has(graph.nodes, name) && !seen.has(name); name = modelSource(graph, name)) {
    if (own(graph.nodes, name)?.type === PLAN_TYPE) return name;
    seen.add(name);
  }
  return "";
}

/** The graph with the plan in it, at the node where that has such inputs; the graph itself where the node has no model or plans cannot be placed. */
export function withPlan(
  graph: EditorGraph,
  catalog: Catalog,
  { node, plan, devices }: ChosenPlan,
  sizeOf: SizeOf = () => [0, 0],
): EditorGraph {
  const placed = hasPlan(graph, catalog, node) ? node : planNodeOf(graph, node);
  if (placed) return giveValue(giveValue(graph, placed, "plan", plan), placed, "devices", devices);
  const spec = specOf(catalog, PLAN_TYPE);
  const source = sourceOf(graph, `${node}.model`) ?? `${node}.model`;
  const makerName = splitTarget(source)[0];
  const maker = own(graph.nodes, makerName);
  if (!spec || !maker) return graph;
  const name = freshName("parallel_plan", (taken) => has(graph.nodes, taken));
  const at: Point = [maker.at[0] + BELOW[0], maker.at[1] + sizeOf(makerName)[1] + BELOW[1]];
  const added = addNode(graph, { name, spec, at, inputs: { model: { from: source }, devices, plan } });
  const inputs = Object.entries(graph.nodes).flatMap(([user, held]) =>
    Object.keys(held.inputs).map((socket) => ({ user, socket })),
  );
  const users = inputs.filter(({ user, socket }) => sourceOf(graph, `${user}.${socket}`) === source);
  return users.reduce((next, { user, socket }) => setInput(next, user, socket, { from: `${name}.model` }), added);
}

function hasPlan(graph: EditorGraph, catalog: Catalog, node: string): boolean {
  const inputs = specOf(catalog, own(graph.nodes, node)?.type ?? "")?.inputs ?? [];
  return ["plan", "devices"].every((name) => inputs.some((input) => input.name === name));
}

function modelSource(graph: EditorGraph, node: string): string {
  return splitTarget(sourceOf(graph, `${node}.model`) ?? "")[0];
}
