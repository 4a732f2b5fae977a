/** Where a viewer looks: relative to the picture, so that pictures of several sizes can be looked at in step. */

export interface View {
  /** 1 shows the whole picture. */
  zoom: number;
  /** The point of the picture in the middle of the stage, 0 to 1 along each side. */
  x: number;
  y: number;
}

export interface Size {
  width: number;
  height: number;
}

export interface Placement extends Size {
  left: number;
  top: number;
  /** Pixels on the screen for one of the picture. */
  scale: number;
}

export const WHOLE: View = { zoom: 1, x: 0.5, y: 0.5 };

/** How much a small picture grows at most by itself; from 2 on by whole numbers, so that its pixels stay alike. */
const LARGEST_FIT = 4;
const LARGEST_SCALE = 32;
const LEAST_LARGEST_ZOOM = 8;

/** Screen pixels per picture pixel when the whole picture shows; small pictures grow, but stay pictures. */
export function fit(picture: Size, stage: Size): number {
  const room = Math.min(stage.width / picture.width, stage.height / picture.height, LARGEST_FIT) || 1;
  return room < 2 ? room : Math.floor(room);
}

export function place(view: View, picture: Size, stage: Size): Placement {
  const scale = fit(picture, stage) * view.zoom;
  const width = picture.width * scale;
  const height = picture.height * scale;
  return { scale, width, height, left: stage.width / 2 - view.x * width, top: stage.height / 2 - view.y * height };
}

/** `view` with its zoom between whole (or actual size) and single pixels, and no empty space where picture could be. */
export function clamped(view: View, picture: Size, stage: Size): View {
  const base = fit(picture, stage);
  const zoom = Math.min(Math.max(view.zoom, Math.min(1, 1 / base)), Math.max(LARGEST_SCALE / base, LEAST_LARGEST_ZOOM));
  const centre = (at: number, length: number, room: number) => {
    const half = Math.min(room / (2 * length * base * zoom), 0.5);
    return Math.min(Math.max(at, half), 1 - half);
  };
  return { zoom, x: centre(view.x, picture.width, stage.width), y: centre(view.y, picture.height, stage.height) };
}

/** Zoom by `factor`, and keep what is under `at` (measured from the stage's corner) where it is. */
export function zoomed(
  view: View,
  factor: number,
  { at, picture, stage }: { at?: { x: number; y: number }; picture: Size; stage: Size },
): View {
  const { zoom } = clamped({ ...view, zoom: view.zoom * factor }, picture, stage);
  const from = place(view, picture, stage);
  const point = at ?? { x: stage.width / 2, y: stage.height / 2 };
  const x = (point.x - from.left) / from.width;
  const y = (point.y - from.top) / from.height;
  const to = place({ ...view, zoom }, picture, stage);
  const middle = {
    zoom,
    x: x - (point.x - stage.width / 2) / to.width,
    y: y - (point.y - stage.height / 2) / to.height,
  };
  return clamped(middle, picture, stage);
}

/** Move the picture by screen pixels. */
export function panned(view: View, dx: number, dy: number, picture: Size, stage: Size): View {
  const { width, height } = place(view, picture, stage);
  return clamped({ ...view, x: view.x - dx / width, y: view.y - dy / height }, picture, stage);
}

/** One picture pixel to one screen pixel. */
export function actualSize(view: View, picture: Size, stage: Size): View {
  return clamped({ ...view, zoom: 1 / fit(picture, stage) }, picture, stage);
}
