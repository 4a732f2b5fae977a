/** Numbers of a socket: reading what was typed, keeping it in range, and whether a slider makes sense. */

import type { InputSpec } from "../../types";

type Range = Pick<InputSpec, "type" | "min" | "max" | "step">;

export interface Typed {
  /** null: no number. */
  value: number | null;
  /** Whether it had to be changed, and how. */
  changed: "" | "limited" | "rounded";
}

export interface Slider {
  min: number;
  max: number;
  step: number;
}

/** A slider of more positions cannot be set to the one that is meant. */
const MAX_POSITIONS = 1000;
/** A slider reaches so many times as far as the model's own number. */
const SPAN = 3;
/** Of a smaller one nobody can tell how far is far. */
const FEWEST_STEPS = 5;
/** A strength is mostly from as much below none to as much above. */
const USUAL = 2;
const FLOAT_STEP = 0.01;
const DIGITS = 10;

/** Reads "1,5" as 1.5 too. Whole numbers are rounded, and what is out of range is brought to its end. */
export function readNumber(text: string, range: Range): Typed {
  const plain = text.trim().replace(",", ".");
  const number = plain === "" ? Number.NaN : Number(plain);
  if (!Number.isFinite(number)) return { value: null, changed: "" };
  const whole = range.type === "int" ? Math.round(number) : number;
  const value = limit(whole, range);
  if (value !== whole) return { value, changed: "limited" };
  return { value, changed: whole === number ? "" : "rounded" };
}

export function limit(value: number, { min, max }: Range): number {
  return Math.min(Math.max(value, min ?? -Infinity), max ?? Infinity);
}

/** One press of an arrow key away, without the dust of binary fractions. */
export function stepped(value: number, by: number, range: Range): number {
  return limit(Number((value + by * stepOf(range)).toFixed(DIGITS)), range);
}

/** Of a range that is much wider than what the model takes by itself (`own`), only the part around that. */
export function sliderOf(range: Range, own: number | null = null, value = 0): Slider | null {
  const { min, max } = range;
  if (min === null || max === null || max <= min) return null;
  const step = stepOf(range);
  const isNear = own !== null && own - min >= FEWEST_STEPS * step;
  const far = (value - min) / step <= MAX_POSITIONS ? value : min; // a slider that went would take its field along
  const near = !isNear ? max : Math.min(max, Math.max(min + Math.ceil(SPAN * (own - min)), far));
  return (near - min) / step <= MAX_POSITIONS ? { min, max: near, step } : null;
}

/** The part of a range that strengths are mostly in; more of it where the value is. */
export function usualOf(range: Range, value: number): Range {
  const min = Math.max(range.min ?? -USUAL, Math.min(-USUAL, value));
  const max = Math.min(range.max ?? USUAL, Math.max(USUAL, value));
  return { ...range, min, max };
}

export function stepOf({ type, step }: Range): number {
  return step ?? (type === "int" ? 1 : FLOAT_STEP);
}
