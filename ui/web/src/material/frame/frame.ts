/** A frame on a picture: a part that is cut out of it, or the larger canvas that it is painted on to. */

import type { NodeSpec } from "../../types";

/** "crop" stays inside the picture, "outpaint" holds all of it. */
export type FrameKind = "crop" | "outpaint";

/** In pixels of the picture, from its corner. */
export interface Frame {
  left: number;
  top: number;
  width: number;
  height: number;
}

interface Size {
  width: number;
  height: number;
}

/** Which borders follow a hand: -1 left or top, 1 right or bottom, 0 neither; all 0 moves the frame. */
export type Grip = readonly [x: -1 | 0 | 1, y: -1 | 0 | 1];

export const GRIPS = {
  top_left: [-1, -1],
  top: [0, -1],
  top_right: [1, -1],
  right: [1, 0],
  bottom_right: [1, 1],
  bottom: [0, 1],
  bottom_left: [-1, 1],
  left: [-1, 0],
} as const satisfies Record<string, Grip>;

/** Sizes that models take are multiples of one of these. */
export const MULTIPLES = [1, 8, 16, 32, 64] as const;
/** As the nodes have it. */
const MOST_BORDER = 8192;

/** The inputs that say where the frame is. */
export const SOCKETS = {
  crop: ["left", "top", "width", "height"],
  outpaint: ["left", "top", "right", "bottom"],
} as const;

/** Whether a node takes a frame, known by its sockets: whole numbers of these names beside a picture. */
export function frameKindOf(spec: NodeSpec | undefined): FrameKind | null {
  const numbers = new Set(spec?.inputs.filter(({ type }) => type === "int").map(({ name }) => name));
  const has = (kind: FrameKind): boolean => SOCKETS[kind].every((name) => numbers.has(name));
  if (!spec?.inputs.some(({ type }) => type === "Image")) return null;
  return has("outpaint") ? "outpaint" : has("crop") ? "crop" : null;
}

/** What a node's sockets say; a width or height of 0 reaches to the picture's border. */
export function frameFrom(kind: FrameKind, picture: Size, value: (socket: string) => number): Frame {
  const [left, top] = [value("left"), value("top")];
  if (kind === "crop") {
    const width = value("width") || picture.width - left;
    return held(kind, picture, { left, top, width, height: value("height") || picture.height - top });
  }
  const [width, height] = [left + picture.width + value("right"), top + picture.height + value("bottom")];
  return held(kind, picture, { left: -left, top: -top, width, height });
}

/** What the node's sockets are to hold. */
export function valuesOf(kind: FrameKind, picture: Size, frame: Frame): Record<string, number> {
  if (kind === "crop") return { ...frame };
  const right = frame.left + frame.width - picture.width;
  return { left: -frame.left || 0, top: -frame.top || 0, right, bottom: frame.top + frame.height - picture.height };
}

/** The frame after a hand took a grip so many pixels along, its sides multiples where there is room for one. */
export function dragged(
  kind: FrameKind,
  picture: Size,
  frame: Frame,
  { grip: [x, y], by, multiple }: { grip: Grip; by: readonly [number, number]; multiple: number },
): Frame {
  if (x === 0 && y === 0) {
    return held(kind, picture, { ...frame, left: frame.left + Math.round(by[0]), top: frame.top + Math.round(by[1]) });
  }
  const [left, width] = side(kind, [frame.left, frame.width], x, by[0], { length: picture.width, multiple });
  const [top, height] = side(kind, [frame.top, frame.height], y, by[1], { length: picture.height, multiple });
  return { left, top, width, height };
}

function side(
  kind: FrameKind,
  [start, length]: readonly [number, number],
  grip: -1 | 0 | 1,
  by: number,
  picture: { length: number; multiple: number },
): [number, number] {
  if (grip === 0) return [start, length];
  const end = start + length;
  // How long it may be while its other border stays where it is.
  const most =
    kind === "crop"
      ? grip < 0
        ? end
        : picture.length - start
      : MOST_BORDER + (grip < 0 ? end : picture.length - start);
  const least = kind === "crop" ? 1 : grip < 0 ? end : picture.length - start;
  const size = snapped(length + grip * by, { ...picture, least, most });
  return grip < 0 ? [end - size, size] : [start, size];
}

/** The nearest multiple that may be; where none may, the nearest number. */
export function snapped(
  size: number,
  { multiple, least, most }: { multiple: number; least: number; most: number },
): number {
  const lowest = Math.ceil(least / multiple) * multiple;
  const highest = Math.floor(most / multiple) * multiple;
  if (lowest > highest) return Math.min(Math.max(Math.round(size), least), most);
  return Math.min(Math.max(Math.round(size / multiple) * multiple, lowest), highest);
}

/** The frame inside the picture, or around it. */
export function held(kind: FrameKind, picture: Size, { left, top, width, height }: Frame): Frame {
  const between = (value: number, least: number, most: number) => Math.min(Math.max(value, least), most);
  if (kind === "crop") {
    const [wide, tall] = [between(width, 1, picture.width), between(height, 1, picture.height)];
    const place = { left: between(left, 0, picture.width - wide), top: between(top, 0, picture.height - tall) };
    return { ...place, width: wide, height: tall };
  }
  const [wide, tall] = [Math.max(width, picture.width), Math.max(height, picture.height)];
  const x = between(left, Math.max(picture.width - wide, -MOST_BORDER), 0);
  const y = between(top, Math.max(picture.height - tall, -MOST_BORDER), 0);
  const border = (length: number, start: number, own: number) => Math.min(length, own + MOST_BORDER - start);
  return { left: x, top: y, width: border(wide, x, picture.width), height: border(tall, y, picture.height) };
}
