/** The order in which nodes need each other. */

import type { EditorGraph } from "../types";
import { has, own } from "./record";
import { isLink, splitTarget } from "./values";

/** The nodes that feed a node, each once. */
export function sourcesOf(graph: EditorGraph, node: string): string[] {
  const inputs = Object.values(own(graph.nodes, node)?.inputs ?? {});
  const names = inputs.filter(isLink).map((link) => splitTarget(link.from)[0]);
  return [...new Set(names)].filter((name) => has(graph.nodes, name));
}

/** The node and all that it needs. */
export function needsOf(graph: EditorGraph, node: string): Set<string> {
  const found = new Set<string>([node]);
  for (const name of found) for (const source of sourcesOf(graph, name)) found.add(source);
  return found;
}

/** All nodes, each after what it needs; nodes of a cycle come last, in the file's order. */
export function inOrder(graph: EditorGraph): string[] {
  const names = Object.keys(graph.nodes);
  const missing = new Map(names.map((name) => [name, sourcesOf(graph, name).length]));
  const users = new Map<string, string[]>(names.map((name) => [name, []]));
  for (const name of names) for (const source of sourcesOf(graph, name)) users.get(source)?.push(name);
  const order = names.filter((name) => missing.get(name) === 0);
  for (const name of order) {
    for (const user of users.get(name) ?? []) {
      const left = (missing.get(user) ?? 0) - 1;
      missing.set(user, left);
      if (left === 0) order.push(user);
    }
  }
  const placed = new Set(order);
  return [...order, ...names.filter((name) => !placed.has(name))];
}
