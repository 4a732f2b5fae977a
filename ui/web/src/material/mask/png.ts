/**
 * A mask as a PNG file, written by hand: a canvas would mix its colours with its alpha, and may colour-manage them, so
 * that the file would not hold what was painted.
 */

import type { Mask } from "./coverage";

/** "luminance": grey, white where it is painted. "alpha": black, transparent where it is painted, as Load Mask reads. */
export type Form = "luminance" | "alpha";

const SIGNATURE = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a];
const GREY = 0;
const GREY_ALPHA = 4;

export async function pngOf(mask: Mask, form: Form): Promise<Blob> {
  const head = new DataView(new ArrayBuffer(13));
  head.setUint32(0, mask.width);
  head.setUint32(4, mask.height);
  head.setUint8(8, 8);
  head.setUint8(9, form === "alpha" ? GREY_ALPHA : GREY);
  const parts = [
    new Uint8Array(SIGNATURE),
    chunk("IHDR", new Uint8Array(head.buffer)),
    chunk("IDAT", await packed(rows(mask, form))),
    chunk("IEND", new Uint8Array(0)),
  ];
  return new Blob(parts, { type: "image/png" });
}

/** Each row behind a byte that says how it is filtered: not at all. */
function rows({ width, height, data }: Mask, form: Form): Uint8Array<ArrayBuffer> {
  const samples = form === "alpha" ? 2 : 1;
  const bytes = new Uint8Array(height * (1 + width * samples));
  let to = 0;
  for (let y = 0; y < height; y++) {
    to++;
    for (let at = y * width; at < (y + 1) * width; at++) {
      if (samples === 2) bytes[to++] = 0;
      bytes[to++] = samples === 2 ? 255 - data[at]! : data[at]!;
    }
  }
  return bytes;
}

async function packed(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  const stream = new Blob([bytes]).stream().pipeThrough(new CompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function chunk(name: string, data: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(12 + data.length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, data.length);
  for (let i = 0; i < 4; i++) bytes[4 + i] = name.charCodeAt(i);
  bytes.set(data, 8);
  view.setUint32(8 + data.length, crc(bytes.subarray(4, 8 + data.length)));
  return bytes;
}

const TABLE = Uint32Array.from({ length: 256 }, (_, n) => {
  let value = n;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? 0xedb88320 ^ (value >>> 1) : value >>> 1;
  return value;
});

function crc(bytes: Uint8Array): number {
  let value = 0xffffffff;
  for (const byte of bytes) value = TABLE[(value ^ byte) & 0xff]! ^ (value >>> 8);
  return (value ^ 0xffffffff) >>> 0;
}
