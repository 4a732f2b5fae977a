/** Pictures as pixels: read from the server without colour management, so that they are those that a node reads. */

import { t } from "../i18n";

export interface Picture {
  width: number;
  height: number;
  bitmap: ImageBitmap;
}

export async function loadPicture(url: string): Promise<Picture> {
  try {
    const response = await fetch(url, { credentials: "same-origin" });
    if (!response.ok) throw new Error(String(response.status));
    const options = { colorSpaceConversion: "none", premultiplyAlpha: "none" } as const;
    const bitmap = await createImageBitmap(await response.blob(), options);
    return { width: bitmap.width, height: bitmap.height, bitmap };
  } catch {
    throw new Error(t("material.not_loaded"));
  }
}

/** RGBA at a size, the picture scaled to cover it with its middle kept, as nodes scale. */
export function coloursOf({ bitmap }: Picture, width = bitmap.width, height = bitmap.height): ImageData {
  const canvas = new OffscreenCanvas(width, height);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (!context) throw new Error(t("gallery.no_canvas"));
  const scale = Math.max(width / bitmap.width, height / bitmap.height);
  const [wide, tall] = [bitmap.width * scale, bitmap.height * scale];
  context.drawImage(bitmap, (width - wide) / 2, (height - tall) / 2, wide, tall);
  return context.getImageData(0, 0, width, height);
}
