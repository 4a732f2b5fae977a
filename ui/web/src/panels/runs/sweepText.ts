/** What people write as the values of a sweep, as the text that the server reads. */

import { isDigits, marked, textExact } from "../../exact";
import type { Json } from "../../types";

export interface SweepRow {
  /** A param's name, or "node.socket". */
  name: string;
  type: string;
  text: string;
}

const RANGE = /^\s*(-?\d+(?:\.\d+)?)\.\.(-?\d+(?:\.\d+)?)(?::(\d+(?:\.\d+)?))?\s*$/;
const NEARLY = 1e-9; // what is lost of a step that no binary number is

/** "seed=1..4", "steps=10,20", or a JSON list where there is one value per line. */
export function sweepText({ name, type, text }: SweepRow): string {
  const values = lines(text);
  if (values.length < 2) return `${name}=${text.trim()}`;
  return `${name}=${textExact(values.map((value) => typed(type, value)))}`;
}

/** How many values a row has, as far as the page can tell. */
export function numValues({ type, text }: SweepRow): number {
  const values = lines(text);
  if (values.length !== 1) return values.length;
  const range = RANGE.exec(text);
  if (range && isNumeric(type)) {
    const steps = (Number(range[2]) - Number(range[1])) / Number(range[3] ?? 1);
    return Math.max(Math.floor(steps + NEARLY) + 1, 0);
  }
  if (text.trim().startsWith("[")) return listLength(text);
  return text.split(",").length;
}

function lines(text: string): string[] {
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");
}

function isNumeric(type: string): boolean {
  return type === "int" || type === "float";
}

function typed(type: string, value: string): Json {
  if (isNumeric(type) && isDigits(value)) return marked(value);
  if (isNumeric(type) && Number.isFinite(Number(value))) return Number(value);
  if (type === "bool") return /^(true|yes|on|1)$/i.test(value);
  return value;
}

function listLength(text: string): number {
  try {
    const list: unknown = JSON.parse(text);
    return Array.isArray(list) ? list.length : 0;
  } catch {
    return 0; // the server says what is wrong with it
  }
}
