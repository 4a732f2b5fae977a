/** Keys of the things one can select: "n:name", "g:id", "c:id", "r:id" and "e:node.socket" (the wire into an input). */

import type { EditorGraph } from "../types";
import { has } from "./record";
import { sourceOf } from "./values";

export type ItemKind = "node" | "group" | "note" | "reroute" | "wire";

const KINDS: Record<string, ItemKind> = { n: "node", g: "group", c: "note", r: "reroute", e: "wire" };
const LETTERS: Record<ItemKind, string> = { node: "n", group: "g", note: "c", reroute: "r", wire: "e" };

export interface Item {
  kind: ItemKind;
  id: string;
}

export function itemKey(kind: ItemKind, id: string): string {
  return `${LETTERS[kind]}:${id}`;
}

/** null for what is no key. */
export function parseItem(key: string): Item | null {
  const kind = key[1] === ":" ? KINDS[key.charAt(0)] : undefined;
  return kind ? { kind, id: key.slice(2) } : null;
}

/** The ids of one kind among keys, in their order. */
export function idsOf(keys: Iterable<string>, kind: ItemKind): string[] {
  const letter = LETTERS[kind];
  return [...keys].filter((key) => key.startsWith(`${letter}:`)).map((key) => key.slice(2));
}

/** Whether a graph has what a key names. */
export function hasItem(graph: EditorGraph, key: string): boolean {
  const item = parseItem(key);
  if (!item) return false;
  const { kind, id } = item;
  if (kind === "node") return has(graph.nodes, id);
  if (kind === "reroute") return has(graph.reroutes, id);
  if (kind === "wire") return sourceOf(graph, id) !== null;
  return (kind === "group" ? graph.groups : graph.notes).some((frame) => frame.id === id);
}
