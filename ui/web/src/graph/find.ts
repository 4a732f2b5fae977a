/** Finding things in a workflow by any of the words that are in them. */

import { asRead } from "../exact";
import type { Catalog, EditorGraph, Problem } from "../types";
import { nodeSpec, specOf, titleOf } from "./catalog";
import { itemKey } from "./items";
import { inOrder } from "./order";
import { own } from "./record";
import { isLink, isParamRef, plainValue } from "./values";

/** What of a thing was matched. */
export type Where = "title" | "name" | "type" | "value" | "param" | "problem" | "group" | "note";

export interface Hit {
  /** The item's key. */
  key: string;
  where: Where;
  /** What the thing is called. */
  title: string;
  /** The input whose value it is; "" where it is none. */
  socket: string;
  /** What was matched, whole. */
  text: string;
}

interface Sought {
  where: Where;
  socket?: string;
  text: string;
}

/** Every match: nodes in the order of their work, each with all that matches in it, then groups and notes. */
export function find(graph: EditorGraph, catalog: Catalog, problems: readonly Problem[], query: string): Hit[] {
  const words = plain(query).split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  const isMatch = ({ text }: Sought): boolean => {
    const where = plain(text);
    return words.every((word) => where.includes(word));
  };
  const nodes = inOrder(graph).flatMap((name) => {
    const all = ofNode(graph, catalog, problems, name).filter(isMatch);
    const isCalledSo = all.some(({ where }) => where === "title"); // then its name and type say the same again
    const found = isCalledSo ? all.filter(({ where }) => where !== "name" && where !== "type") : all;
    return found.map((sought) => hit(itemKey("node", name), titleOf(graph, catalog, name), sought));
  });
  const frames = [
    ...graph.groups.map(({ id, title }) => hit(itemKey("group", id), title, { where: "group", text: title })),
    ...graph.notes.map(({ id, text }) => hit(itemKey("note", id), "", { where: "note", text })),
  ];
  return [...nodes, ...frames.filter(isMatch)];
}

/** A node is called what its title says, and that is not found again as its type. */
function ofNode(graph: EditorGraph, catalog: Catalog, problems: readonly Problem[], name: string): Sought[] {
  const node = own(graph.nodes, name);
  if (!node) return [];
  const title = titleOf(graph, catalog, name);
  const type = specOf(catalog, node.type)?.title ?? node.type;
  const spec = nodeSpec(graph, catalog, name);
  const sockets = new Set([...(spec?.inputs ?? []).map((input) => input.name), ...Object.keys(node.inputs)]);
  const values = [...sockets].flatMap((socket): Sought[] => {
    const held = own(node.inputs, socket);
    if (isLink(held)) return [];
    const usual = spec?.inputs.find((input) => input.name === socket)?.default;
    const value = plainValue(graph, held) ?? (held === undefined ? usual : undefined);
    const isSaid = value !== undefined && value !== null && value !== "";
    return [
      ...(isSaid ? [{ where: "value" as const, socket, text: asRead(value) }] : []),
      ...(isParamRef(held) ? [{ where: "param" as const, socket, text: held.param }] : []),
    ];
  });
  const told = problems.filter((problem) => problem.node === name);
  return [
    { where: "title", text: title },
    ...(type === title ? [] : [{ where: "type" as const, text: type }]),
    { where: "name", text: name },
    ...values,
    ...told.map(({ socket, message }) => ({ where: "problem" as const, socket, text: message })),
  ];
}

function hit(key: string, title: string, { where, socket = "", text }: Sought): Hit {
  return { key, where, title, socket, text };
}

/** Without case and accents. */
function plain(text: string): string {
  return text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
}
