/** How a painter's stage is drawn: the picture, the mask over it, outline and cursor. */

import type { Placement, Size } from "../../gallery/stage/zoom";
import type { Picture } from "../pixels";
import type { Box, Mask, Spot } from "./coverage";

/** What a mask shows as over a picture: red, green, blue, and how much of it covers where it is 255. */
const TINT = [255, 46, 120, 0.62] as const;
/** Single pixels show as squares from here on. */
const PIXELS_SHOW = 4;
const CHECKS = 8;

/** A mask as two pictures that canvases can draw: a tint to lay over, and the mask itself in grey. */
export class MaskPictures {
  readonly tint: OffscreenCanvas;
  readonly grey: OffscreenCanvas;

  constructor(private readonly mask: Mask) {
    this.tint = new OffscreenCanvas(mask.width, mask.height);
    this.grey = new OffscreenCanvas(mask.width, mask.height);
  }

  update({ left, top, right, bottom }: Box): void {
    const [wide, tall] = [right - left, bottom - top];
    const tint = new ImageData(wide, tall);
    const grey = new ImageData(wide, tall);
    for (let y = 0, to = 0; y < tall; y++) {
      for (let x = 0; x < wide; x++, to += 4) {
        const value = this.mask.data[(top + y) * this.mask.width + left + x]!;
        for (let c = 0; c < 3; c++) tint.data[to + c] = TINT[c]!;
        tint.data[to + 3] = Math.round(value * TINT[3]);
        grey.data.fill(value, to, to + 3);
        grey.data[to + 3] = 255;
      }
    }
    this.tint.getContext("2d")?.putImageData(tint, left, top);
    this.grey.getContext("2d")?.putImageData(grey, left, top);
  }
}

/** One half of the stage, or all of it. */
export interface Pane {
  left: number;
  size: Size;
  shows: "picture" | "over" | "mask";
}

export interface Scene {
  picture: Picture | null;
  pictures: MaskPictures;
  /** Where the picture lies in a pane, from the pane's own corner. */
  placement: Placement;
  cursor: (Spot & { radius: number; isKeyboard: boolean }) | null;
  /** Corners of the outline under way. */
  outline: readonly Spot[];
}

export function drawPane(context: CanvasRenderingContext2D, { left, size, shows }: Pane, scene: Scene): void {
  const { placement, pictures } = scene;
  context.save();
  context.beginPath();
  context.rect(left, 0, size.width, size.height);
  context.clip();
  context.translate(left + placement.left, placement.top);
  context.imageSmoothingEnabled = placement.scale < PIXELS_SHOW;
  const show = (source: CanvasImageSource): void => context.drawImage(source, 0, 0, placement.width, placement.height);
  if (shows === "mask") show(pictures.grey);
  else {
    if (scene.picture) show(scene.picture.bitmap);
    else drawChecks(context, placement);
    if (shows === "over") show(pictures.tint);
  }
  drawHand(context, scene);
  context.restore();
}

/** Stands for a picture that is not here. */
function drawChecks(context: CanvasRenderingContext2D, { width, height }: Size): void {
  context.fillStyle = "#c9ccd3";
  context.fillRect(0, 0, width, height);
  context.fillStyle = "#b4b8c1";
  for (let y = 0; y < height; y += CHECKS)
    for (let x = (y / CHECKS) % 2 ? CHECKS : 0; x < width; x += 2 * CHECKS)
      context.fillRect(x, y, Math.min(CHECKS, width - x), Math.min(CHECKS, height - y));
}

/** Outline and cursor, dark and light, so that they show on every picture. */
function drawHand(context: CanvasRenderingContext2D, { cursor, outline, placement: { scale } }: Scene): void {
  const lines = new Path2D();
  outline.forEach(({ x, y }, index) =>
    index ? lines.lineTo(x * scale, y * scale) : lines.moveTo(x * scale, y * scale),
  );
  if (cursor) {
    const [x, y] = [cursor.x * scale, cursor.y * scale];
    if (outline.length) lines.lineTo(x, y);
    const radius = Math.max(cursor.radius * scale, 2);
    lines.moveTo(x + radius, y);
    lines.arc(x, y, radius, 0, 2 * Math.PI);
    if (cursor.isKeyboard) {
      const arm = Math.max(radius, 4) + 8;
      for (const [dx, dy] of [
        [1, 0],
        [-1, 0],
        [0, 1],
        [0, -1],
      ] as const) {
        lines.moveTo(x + dx * (arm - 6), y + dy * (arm - 6));
        lines.lineTo(x + dx * arm, y + dy * arm);
      }
    }
  }
  context.lineWidth = 3;
  context.strokeStyle = "rgb(0 0 0 / 70%)";
  context.stroke(lines);
  context.lineWidth = 1.25;
  context.strokeStyle = "#ffffff";
  context.stroke(lines);
}
