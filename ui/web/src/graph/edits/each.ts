/** For-each: the list that a node goes through, and which input its elements stand at. */

import type { EditorGraph, EachList } from "../../types";
import { isOnly, isParamRef } from "../values";
import { own, without } from "../record";
import { changeNodes, withoutEach } from "./nodes";
import { tidyReroutes } from "./reroutes";

/** Let a node go through a list at one of its inputs; null takes the list away. */
export function setEach(graph: EditorGraph, name: string, socket: string, list: EachList | null): EditorGraph {
  if (!own(graph.nodes, name)) return graph;
  const next = changeNodes(graph, [name], (node) => {
    if (list === null) return withoutEach(node, socket);
    return { ...node, each: { ...node.each, [socket]: list }, inputs: without(node.inputs, socket) };
  });
  return tidyReroutes(next);
}

export type EachKind = "lines" | "range" | "folder" | "param";

/** How a list is written, and as text: one element a line, "1..8", a folder's path, or a param's name. */
export function shownList(list: EachList): { kind: EachKind; text: string } {
  if (Array.isArray(list)) return { kind: "lines", text: list.map(String).join("\n") };
  if (isParamRef(list)) return { kind: "param", text: list.param };
  if (isOnly(list, "range")) return { kind: "range", text: (list as { range: unknown[] }).range.join("..") };
  if ("folder" in list) return { kind: "folder", text: String((list as { folder: unknown }).folder) };
  const { lines } = list as { lines: unknown };
  return isParamRef(lines) ? { kind: "param", text: lines.param } : { kind: "lines", text: String(lines) };
}

/** The list that a text means; null where it means none. Numbers stay numbers at an input of numbers. */
export function listFrom(kind: EachKind, text: string, type: string): EachList | null {
  const words = text.trim();
  if (kind === "param") return words ? { param: words } : null;
  if (kind === "folder") return words ? { folder: words } : null;
  if (kind === "range") {
    const numbers = words.split("..").map(Number);
    return numbers.length >= 2 && numbers.length <= 3 && numbers.every(Number.isFinite) ? { range: numbers } : null;
  }
  if (type !== "int" && type !== "float") return { lines: text };
  const numbers = words.split(/\s+/).filter(Boolean).map(Number);
  return numbers.length && numbers.every(Number.isFinite) ? numbers : null;
}
