/** The difference of two pictures, pixel by pixel, made visible by an amplification factor. */

export interface PixelDifference {
  /** RGBA, `factor` times the absolute difference of each channel; opaque. */
  pixels: Uint8ClampedArray<ArrayBuffer>;
  /** In steps of 1/255, over all channels. */
  max: number;
  mean: number;
  /** Share of pixels that differ at all, 0 to 1. */
  changed: number;
}

export function pixelDifference(a: Uint8ClampedArray, b: Uint8ClampedArray, factor: number): PixelDifference {
  const pixels = new Uint8ClampedArray(a.length);
  let max = 0;
  let sum = 0;
  let changed = 0;
  for (let at = 0; at < a.length; at += 4) {
    let here = 0;
    for (let channel = 0; channel < 3; channel += 1) {
      const off = Math.abs((a[at + channel] ?? 0) - (b[at + channel] ?? 0));
      pixels[at + channel] = off * factor;
      sum += off;
      if (off > here) here = off;
    }
    pixels[at + 3] = 255;
    if (here > 0) changed += 1;
    if (here > max) max = here;
  }
  const count = a.length / 4;
  return { pixels, max, mean: count ? sum / (3 * count) : 0, changed: count ? changed / count : 0 };
}
