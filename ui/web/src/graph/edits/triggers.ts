/** Words that call a LoRA up, in the prompts that are read with it. */

import type { EditorGraph } from "../../types";
import { own } from "../record";
import { isLink, isParamRef, plainValue, splitTarget } from "../values";
import { giveValue } from "./params";

const EDGE = /[\p{L}\p{N}_]/u;

/** The text with the word at its end, after a comma; the text itself where it has it. */
export function withWord(text: string, word: string): string {
  if (hasWord(text, word)) return text;
  const before = text.trimEnd().replace(/,$/, "");
  return before ? `${before}, ${word}` : word;
}

/** Whether a text has the word, or the phrase, as it stands and not as a part of a longer word; in any case. */
export function hasWord(text: string, word: string): boolean {
  const [within, wanted] = [text.toLowerCase(), word.toLowerCase()];
  if (!wanted) return true;
  for (let at = within.indexOf(wanted); at >= 0; at = within.indexOf(wanted, at + 1)) {
    const [before = "", after = ""] = [within[at - 1], within[at + wanted.length]];
    const isCut = (EDGE.test(before) && EDGE.test(wanted[0]!)) || (EDGE.test(after) && EDGE.test(wanted.at(-1)!));
    if (!isCut) return true;
  }
  return false;
}

/** The text at a prompt ("node.socket"); null where it comes by a wire or a list, or (`isOfForm`) is no param's. */
export function promptText(graph: EditorGraph, prompt: string, isOfForm = false): string | null {
  const [name, socket] = splitTarget(prompt);
  const node = own(graph.nodes, name);
  const held = own(node?.inputs ?? {}, socket);
  if (!node || isLink(held) || own(node.each ?? {}, socket) || (isOfForm && !isParamRef(held))) return null;
  const text = plainValue(graph, held) ?? "";
  return typeof text === "string" ? text : null;
}

/** Put a word into each of these prompts that has room for it and has it not yet. */
export function addWord(graph: EditorGraph, prompts: readonly string[], word: string): EditorGraph {
  return prompts.reduce((last, prompt) => {
    const text = promptText(last, prompt);
    const next = text === null ? null : withWord(text, word);
    return next === null || next === text ? last : giveValue(last, ...splitTarget(prompt), next);
  }, graph);
}
