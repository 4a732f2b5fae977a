/** A mask that is in a file, as Load Mask reads it. */

import type { Json } from "../../types";
import type { Mask } from "./coverage";
import type { Form } from "./png";

export const CHANNELS = ["alpha", "red", "green", "blue", "luminance"] as const;
export type Channel = (typeof CHANNELS)[number];

export function channelOf(value: Json | undefined): Channel {
  return CHANNELS.find((channel) => channel === value) ?? "alpha";
}

/** How a mask is written so that this channel of its file is the mask. */
export function formFor(channel: Channel): Form {
  return channel === "alpha" ? "alpha" : "luminance";
}

/** `colours` are RGBA, not multiplied by alpha. */
export function maskOf(colours: Uint8ClampedArray, width: number, height: number, channel: Channel): Mask {
  const data = new Uint8Array(width * height);
  for (let at = 0; at < data.length; at++) data[at] = valueOf(colours, at * 4, channel);
  return { width, height, data };
}

function valueOf(colours: Uint8ClampedArray, at: number, channel: Channel): number {
  const alpha = colours[at + 3]!;
  if (channel === "alpha") return 255 - alpha;
  if (channel !== "luminance") return colours[at + ["red", "green", "blue"].indexOf(channel)]!;
  const over = (c: number): number => Math.round((colours[at + c]! * alpha + 255 * (255 - alpha)) / 255);
  return (over(0) * 19595 + over(1) * 38470 + over(2) * 7471 + 0x8000) >> 16; // as Pillow's convert("L")
}
