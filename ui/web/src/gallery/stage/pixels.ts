/** The pixels of a result: of a picture, or of the frame of a video at a time. */
import { urls } from "../../host";
import { t } from "../../i18n";
import type { Result } from "../../types";

export async function pixelsOf(result: Result, time: number): Promise<ImageData> {
  const source = result.kind === "video" ? await frame(result, time) : await loadPicture(result);
  const canvas = document.createElement("canvas");
  canvas.width = result.width;
  canvas.height = result.height;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (!context) throw new Error(t("gallery.no_canvas"));
  context.drawImage(source, 0, 0, canvas.width, canvas.height);
  return context.getImageData(0, 0, canvas.width, canvas.height);
}

/** Of a video or sound: its thumb. */
export async function loadPicture({ id, kind, name }: Result): Promise<HTMLImageElement> {
  const image = new Image();
  image.src = kind === "image" ? urls.file(id) : urls.thumb(id);
  try {
    await image.decode();
  } catch {
    throw new Error(t("gallery.not_loaded", { name }));
  }
  return image;
}

function frame({ id, name }: Result, time: number): Promise<HTMLVideoElement> {
  return new Promise((resolve, reject) => {
    const video = document.createElement("video");
    video.muted = true;
    video.preload = "auto";
    video.onloadeddata = () => {
      video.onseeked = () => resolve(video);
      video.currentTime = time;
    };
    video.onerror = () => reject(new Error(t("gallery.not_loaded", { name })));
    video.src = urls.file(id);
  });
}
