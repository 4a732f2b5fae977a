/** Whole numbers that JavaScript would round, such as seeds of 64 bits. In the page each is the text of its digits
 * behind a mark, which no text of a user has; what leaves the page has the digits as they came. */

import type { Catalog, InputSpec, Json, NodeSpec } from "./types";

/** Of no language: a character for private use. */
const MARK = "\uE000";

/** Strings, which are passed over, and whole numbers that may be too large. */
const TOKENS = /"[^"\\]*(?:\\.[^"\\]*)*"|(?<![\w.+-])-?\d{16,}(?![\d.eE])/g;
const MARKED = new RegExp(`"${MARK}(-?\\d{16,})"(?!\\s*:)`, "g");

const MOST = Number.MAX_SAFE_INTEGER;

export function parseExact(text: string): unknown {
  const marked = (token: string) => `"${MARK}${token}"`;
  return JSON.parse(text.replace(TOKENS, (token) => (token.startsWith('"') || isSafe(token) ? token : marked(token))));
}

/** JSON of what `parseExact` read, each number as it was. */
export function textExact(value: unknown, indent?: number): string {
  return (JSON.stringify(value, null, indent) ?? "null").replace(MARKED, "$1");
}

/** Whether a number's value is a whole number that JavaScript would round; older pages kept those without the mark. */
export function isDigits(value: unknown): value is string {
  return typeof value === "string" && /^\uE000?-?\d{16,20}$/.test(value) && !isSafe(unmarked(value));
}

/** A text without its mark. */
export function unmarked(text: string): string {
  return text.startsWith(MARK) ? text.slice(MARK.length) : text;
}

/** The number that somebody wrote in so many digits. */
export function marked(digits: string): string {
  return MARK + unmarked(digits);
}

/** A value as people read it; texts stay as they are. */
export function asRead(value: unknown): string {
  return typeof value === "string" ? unmarked(value) : textExact(value);
}

/** A limit to count with, which may be rounded; null where there is none. */
export function limitOf(limit: number | string | null | undefined): number | null {
  return typeof limit === "string" ? Number(unmarked(limit)) : (limit ?? null);
}

/** The catalog with limits to count with: no graph takes them over where they were rounded. */
export function withLimits(catalog: Catalog): Catalog {
  return { ...catalog, nodes: catalog.nodes.map(limitedNode) };
}

/** A node of it, likewise. */
export function limitedNode(node: NodeSpec): NodeSpec {
  const limited = (input: InputSpec): InputSpec => ({ ...input, min: limitOf(input.min), max: limitOf(input.max) });
  return { ...node, inputs: node.inputs.map(limited) };
}

/** Whether a limit is there, and as the server said it: one that was rounded is left to the server. */
export function isExact(limit: number | null): limit is number {
  return limit !== null && Math.abs(limit) <= MOST;
}

/** A whole number of any size; 0 for anything else. */
export function wholeOf(value: Json | undefined): bigint {
  if (isDigits(value)) return BigInt(unmarked(value));
  return Number.isSafeInteger(value) ? BigInt(value as number) : 0n;
}

/** An input with the range of what can be typed into it: whole numbers have one even where the input names none. */
export function reachOf(input: InputSpec): InputSpec {
  return input.type === "int" ? { ...input, min: input.min ?? -MOST, max: Math.min(input.max ?? MOST, MOST) } : input;
}

function isSafe(digits: string): boolean {
  return Number.isSafeInteger(Number(digits));
}
