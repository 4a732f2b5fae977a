/** A mask as bytes, and what is drawn into it: strokes, areas, floods. 255 is painted anew, 0 is kept. */

export interface Mask {
  readonly width: number;
  readonly height: number;
  /** Row by row, one byte a pixel. */
  readonly data: Uint8Array<ArrayBuffer>;
}

export interface Spot {
  x: number;
  y: number;
}

/** Where a brush touches: the middle of the pixel in the corner is 0.5, 0.5. */
export interface Touch extends Spot {
  radius: number;
}

/** Pixels from `left`, `top` up to, without, `right`, `bottom`. */
export interface Box {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

/** RGBA of the picture under the mask, row by row. */
export type Colours = Uint8ClampedArray;

const FULL = 255;
const HALF = 128;

export function emptyMask(width: number, height: number): Mask {
  return { width, height, data: new Uint8Array(width * height) };
}

export function wholeOf({ width, height }: Mask): Box {
  return { left: 0, top: 0, right: width, bottom: height };
}

export function joined(a: Box | null, b: Box | null): Box | null {
  if (!a || !b) return a ?? b;
  return {
    left: Math.min(a.left, b.left),
    top: Math.min(a.top, b.top),
    right: Math.max(a.right, b.right),
    bottom: Math.max(a.bottom, b.bottom),
  };
}

/** The brush drawn from one touch to another, a pixel counted by how much of it is covered; null where it misses. */
export function drawStroke(mask: Mask, from: Touch, to: Touch, isErasing: boolean): Box | null {
  const reach = Math.max(from.radius, to.radius) + 1;
  const box = cut(mask, {
    left: Math.floor(Math.min(from.x, to.x) - reach),
    top: Math.floor(Math.min(from.y, to.y) - reach),
    right: Math.ceil(Math.max(from.x, to.x) + reach),
    bottom: Math.ceil(Math.max(from.y, to.y) + reach),
  });
  if (!box) return null;
  const [dx, dy] = [to.x - from.x, to.y - from.y];
  const length2 = dx * dx + dy * dy;
  for (let y = box.top; y < box.bottom; y++) {
    for (let x = box.left; x < box.right; x++) {
      const [px, py] = [x + 0.5 - from.x, y + 0.5 - from.y];
      const along = length2 ? Math.min(Math.max((px * dx + py * dy) / length2, 0), 1) : 0;
      const radius = from.radius + (to.radius - from.radius) * along;
      const covered = radius + 0.5 - Math.hypot(px - dx * along, py - dy * along);
      if (covered > 0) put(mask, y * mask.width + x, Math.round(Math.min(covered, 1) * FULL), isErasing);
    }
  }
  return box;
}

/** All pixels whose middle lies inside an outline, by the even-odd rule. */
export function fillOutline(mask: Mask, corners: readonly Spot[], isErasing: boolean): Box | null {
  if (corners.length < 3) return null;
  const [xs, ys] = [corners.map(({ x }) => x), corners.map(({ y }) => y)];
  const box = cut(mask, {
    left: Math.floor(Math.min(...xs)),
    top: Math.floor(Math.min(...ys)),
    right: Math.ceil(Math.max(...xs)),
    bottom: Math.ceil(Math.max(...ys)),
  });
  if (!box) return null;
  for (let y = box.top; y < box.bottom; y++) {
    const at = crossings(corners, y + 0.5);
    for (let i = 0; i + 1 < at.length; i += 2) {
      const first = Math.max(Math.ceil(at[i]! - 0.5), box.left);
      const end = Math.min(Math.ceil(at[i + 1]! - 0.5), box.right);
      for (let x = first; x < end; x++) put(mask, y * mask.width + x, FULL, isErasing);
    }
  }
  return box;
}

function crossings(corners: readonly Spot[], y: number): number[] {
  const at = corners.flatMap((a, i) => {
    const b = corners[(i + 1) % corners.length]!;
    return a.y <= y === b.y <= y ? [] : [a.x + ((y - a.y) / (b.y - a.y)) * (b.x - a.x)];
  });
  return at.sort((a, b) => a - b);
}

/**
 * Fills what hangs together with a pixel: up to the painted (or, erasing, the bare) border; with a picture also as far
 * as its colours are within `tolerance` (0 to 255) of the pixel's.
 */
export function flood(
  mask: Mask,
  spot: Spot,
  { isErasing = false, picture, tolerance = 0 }: { isErasing?: boolean; picture?: Colours; tolerance?: number } = {},
): Box | null {
  const { width, height, data } = mask;
  const [x0, y0] = [Math.floor(spot.x), Math.floor(spot.y)];
  if (x0 < 0 || y0 < 0 || x0 >= width || y0 >= height) return null;
  const start = y0 * width + x0;
  const isAlike = (at: number): boolean => {
    if (!picture) return true;
    for (let c = 0; c < 3; c++) if (Math.abs(picture[at * 4 + c]! - picture[start * 4 + c]!) > tolerance) return false;
    return true;
  };
  const isOpen = (at: number): boolean => data[at]! >= HALF === isErasing && isAlike(at);
  if (!isOpen(start)) return null;
  const seen = new Uint8Array(width * height);
  const waiting = [start];
  seen[start] = 1;
  const box = { left: x0, top: y0, right: x0 + 1, bottom: y0 + 1 };
  const visit = (at: number): void => {
    if (seen[at] || !isOpen(at)) return;
    seen[at] = 1;
    waiting.push(at);
  };
  for (let at = waiting.pop(); at !== undefined; at = waiting.pop()) {
    const [x, y] = [at % width, Math.floor(at / width)];
    box.left = Math.min(box.left, x);
    box.right = Math.max(box.right, x + 1);
    box.top = Math.min(box.top, y);
    box.bottom = Math.max(box.bottom, y + 1);
    if (x > 0) visit(at - 1);
    if (x < width - 1) visit(at + 1);
    if (y > 0) visit(at - width);
    if (y < height - 1) visit(at + width);
  }
  for (let at = 0; at < seen.length; at++) if (seen[at]) data[at] = isErasing ? 0 : FULL;
  return box;
}

export function invert({ data }: Mask): void {
  for (let at = 0; at < data.length; at++) data[at] = FULL - data[at]!;
}

/**
 * Softens all edges: three running means, whose reaches add up to `radius`. Beyond so many pixels of an edge nothing
 * changes, so that what is 0 there stays 0. The border goes on beyond itself.
 */
export function feather(mask: Mask, radius: number): void {
  for (let pass = 0; pass < 3; pass++) {
    const reach = Math.floor((radius + pass) / 3);
    if (reach < 1) continue;
    for (let y = 0; y < mask.height; y++) average(mask.data, y * mask.width, 1, mask.width, reach);
    for (let x = 0; x < mask.width; x++) average(mask.data, x, mask.width, mask.height, reach);
  }
}

function average(data: Uint8Array, first: number, step: number, count: number, reach: number): void {
  const line = new Uint8Array(count);
  for (let i = 0; i < count; i++) line[i] = data[first + i * step]!;
  const value = (i: number): number => line[Math.min(Math.max(i, 0), count - 1)]!;
  const size = 2 * reach + 1;
  let sum = 0;
  for (let i = -reach; i <= reach; i++) sum += value(i);
  for (let i = 0; i < count; i++) {
    data[first + i * step] = Math.round(sum / size);
    sum += value(i + reach + 1) - value(i - reach);
  }
}

/** How much of the mask is painted, from 0 to 1. */
export function partPainted({ data }: Mask): number {
  let sum = 0;
  for (const value of data) sum += value;
  return data.length ? sum / (data.length * FULL) : 0;
}

function put({ data }: Mask, at: number, covered: number, isErasing: boolean): void {
  const old = data[at]!;
  data[at] = isErasing ? Math.min(old, FULL - covered) : Math.max(old, covered);
}

function cut({ width, height }: Mask, { left, top, right, bottom }: Box): Box | null {
  const box = {
    left: Math.max(left, 0),
    top: Math.max(top, 0),
    right: Math.min(right, width),
    bottom: Math.min(bottom, height),
  };
  return box.left < box.right && box.top < box.bottom ? box : null;
}
