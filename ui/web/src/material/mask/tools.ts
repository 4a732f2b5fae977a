/** What a painter is set to, and where its cursor is. */

export const TOOLS = ["brush", "lasso", "fill", "hand"] as const;
export type Tool = (typeof TOOLS)[number];

/** The mask over the picture, beside it, or alone. */
export const SIGHTS = ["over", "beside", "alone"] as const;
export type Sight = (typeof SIGHTS)[number];

/** Pixels that an arrow key moves the cursor by. */
export const STEPS = [1, 4, 16, 64] as const;
/** Shift makes a step so many times as long. */
export const LONG = 8;

export interface Settings {
  tool: Tool;
  isErasing: boolean;
  /** The brush's diameter in pixels of the picture. */
  size: number;
  step: number;
  sight: Sight;
  /** Whether filling stops where the picture's colours change. */
  byColour: boolean;
  /** 0 to 255. */
  tolerance: number;
  feather: number;
}

/** For a picture of this size: a brush that one sees. */
export function firstSettings(width: number, height: number): Settings {
  const size = Math.max(4, Math.round(Math.min(width, height) / 12));
  const step = [...STEPS].reverse().find((each) => each <= Math.min(width, height) / 16) ?? 1;
  return { tool: "brush", isErasing: false, size, step, sight: "over", byColour: false, tolerance: 24, feather: 8 };
}

export function largestBrush(width: number, height: number): number {
  return Math.max(8, Math.min(512, Math.max(width, height)));
}

/** The next size up or down: a tenth, and a pixel at least. */
export function sized(size: number, direction: 1 | -1, most: number): number {
  return Math.min(Math.max(size + direction * Math.max(1, Math.round(size / 10)), 1), most);
}

/** Where a brush of this diameter touches; a pen's pressure (0 to 1) makes it smaller. */
export function radiusOf(size: number, pressure = 1): number {
  return Math.max((size / 2) * pressure, 0.5);
}
