/** Sizes by their shape: what a model can paint nearest to a ratio at an area. */

import type { Sizes } from "../../types";

export interface Size {
  width: number;
  height: number;
}

/** Which sides are taken: multiples of one number, up to another (0: of any length). */
export type Sides = Pick<Sizes, "multiple" | "most_side">;

/** Width to height. */
export const RATIOS = ["1:1", "4:3", "3:2", "16:9", "21:9", "3:4", "2:3", "9:16"] as const;
export type Ratio = (typeof RATIOS)[number];

const PIXELS_OF_MEGA = 1e6;
/** The longest side that sockets take. */
const MOST_PIXELS = 16384;
/** An area is picked from so many times less to so many times more than the model's own, in so many steps of it. */
const SPAN = 8;
const STEPS = 64;
const DIGITS = 2;

/** The size of this shape whose area is nearest, with sides that the model takes. */
export function sizeOf(ratio: Ratio, area: number, sides: Sides): Size {
  const [across = 1, down = 1] = ratio.split(":").map(Number);
  return fitted(across, down, area, sides);
}

/** The same shape at another area. */
export function scaled(size: Size, area: number, sides: Sides): Size {
  const ratio = ratioOf(size, sides);
  return ratio ? sizeOf(ratio, area, sides) : fitted(size.width, size.height, area, sides);
}

/** What will be painted: zeros stand for the model's own. */
export function painted(size: Size, own: Size): Size {
  return { width: size.width || own.width, height: size.height || own.height };
}

/** The ratio of a size; "" for one that none of them has. */
export function ratioOf({ width, height }: Size, sides: Sides): Ratio | "" {
  const isOf = (ratio: Ratio) => {
    const like = sizeOf(ratio, width * height, sides);
    return like.width === width && like.height === height;
  };
  return RATIOS.find(isOf) ?? "";
}

export function megapixels({ width, height }: Size): number {
  return Number(((width * height) / PIXELS_OF_MEGA).toPrecision(DIGITS));
}

/** Pixels of a number of megapixels; the model's own where it is as good as that. */
export function pixelsOf(mega: number, own: Size): number {
  return mega === megapixels(own) ? own.width * own.height : mega * PIXELS_OF_MEGA;
}

/** Which megapixels are offered around the model's own. */
export function areasOf(own: Size, { most_side }: Sides): { min: number; max: number; step: number } {
  const area = (own.width * own.height) / PIXELS_OF_MEGA;
  const most = most_side ? most_side ** 2 / PIXELS_OF_MEGA : Infinity;
  const round = (number: number) => Number(number.toPrecision(DIGITS));
  return { min: round(area / SPAN), max: round(Math.min(area * SPAN, most)), step: round(area / STEPS) };
}

function fitted(across: number, down: number, area: number, { multiple, most_side }: Sides): Size {
  const most = Math.floor((most_side || MOST_PIXELS) / multiple) * multiple;
  const longest = Math.max(across, down) * Math.sqrt(area / (across * down));
  const scale = (Math.sqrt(area / (across * down)) * Math.min(longest, most)) / longest;
  const fit = (side: number): number => Math.min(Math.max(multiple, Math.round(side / multiple) * multiple), most);
  return { width: fit(across * scale), height: fit(down * scale) };
}
