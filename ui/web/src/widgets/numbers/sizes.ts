/** Sizes by their shape: what a model can paint nearest to a ratio at an area. */

import type { Sizes } from "../../types";

export interface Size {
  width: number;
  height: number;
}

/** Width to height. */
export const RATIOS = ["1:1", "4:3", "3:2", "16:9", "3:4", "2:3", "9:16"] as const;
export type Ratio = (typeof RATIOS)[number];

const PIXELS_OF_MEGA = 1e6;

/** The size of this shape whose area is nearest, with sides that the model takes. */
export function sizeOf(ratio: Ratio, area: number, multiple: number): Size {
  const [across = 1, down = 1] = ratio.split(":").map(Number);
  const fit = (side: number): number => Math.max(multiple, Math.round(side / multiple) * multiple);
  return { width: fit(Math.sqrt((area * across) / down)), height: fit(Math.sqrt((area * down) / across)) };
}

/** What will be painted: zeros stand for the model's own. */
export function painted(size: Size, own: Size): Size {
  return { width: size.width || own.width, height: size.height || own.height };
}

/** The ratio of a size; "" for one that none of them has. */
export function ratioOf({ width, height }: Size, { multiple }: Pick<Sizes, "multiple">): Ratio | "" {
  const isOf = (ratio: Ratio) => {
    const like = sizeOf(ratio, width * height, multiple);
    return like.width === width && like.height === height;
  };
  return RATIOS.find(isOf) ?? "";
}

export function megapixels({ width, height }: Size): number {
  return (width * height) / PIXELS_OF_MEGA;
}
