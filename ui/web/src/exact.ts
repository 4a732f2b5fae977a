/** Whole numbers that JavaScript would round, such as seeds of 64 bits, stay the text of their digits; the server takes
 * that for the number. */

import type { InputSpec, Json } from "./types";

/** Strings and the limits of ranges, which are passed over, and whole numbers that may be too large. */
const TOKENS = /"(?:max|min)"\s*:\s*-?\d+|"[^"\\]*(?:\\.[^"\\]*)*"|(?<![\w.+-])-?\d{16,}(?![\d.eE])/g;

const MOST = Number.MAX_SAFE_INTEGER;

export function parseExact(text: string): unknown {
  return JSON.parse(text.replace(TOKENS, (token) => (isDigits(token) ? `"${token}"` : token)));
}

/** Whether a value is a whole number that JavaScript would round. */
export function isDigits(value: unknown): value is string {
  return typeof value === "string" && /^-?\d{16,20}$/.test(value) && !Number.isSafeInteger(Number(value));
}

/** Whether a limit is there, and as the server said it: one that was rounded is left to the server. */
export function isExact(limit: number | null): limit is number {
  return limit !== null && Math.abs(limit) <= MOST;
}

/** A whole number of any size; 0 for anything else. */
export function wholeOf(value: Json | undefined): bigint {
  return isDigits(value) || Number.isSafeInteger(value) ? BigInt(value as string | number) : 0n;
}

/** An input with the range of what can be typed into it: whole numbers have one even where the input names none. */
export function reachOf(input: InputSpec): InputSpec {
  return input.type === "int" ? { ...input, min: input.min ?? -MOST, max: Math.min(input.max ?? MOST, MOST) } : input;
}
