/** A whole sweep as one PNG: its pictures in rows and columns, with the values they were made with beside them. */
import { t } from "../../i18n";
import type { Result } from "../../types";
import { loadPicture } from "../stage/pixels";
import type { Size } from "../stage/zoom";

export interface GridPicture {
  title: string;
  rows: readonly string[];
  columns: readonly string[];
  /** What each cell shows; null where there is nothing. */
  cells: readonly (readonly (Result | null)[])[];
  /** Of the largest picture. */
  width: number;
  height: number;
}

interface Box extends Size {
  x: number;
  y: number;
}

/** A picture to be shown anywhere: it has no theme. */
const GROUND = "#ffffff";
const INK = "#1b1b1f";
const EDGE = "#c9c9d2";
const FACE = "system-ui, sans-serif";
const LARGEST_SIDE = 8192;
const LARGEST_AREA = 48_000_000;
const GAP = 8;
const LEAST_FONT = 15;
/** Pixels of a cell's width for each of the letters' height: labels stay readable when the whole is shown small. */
const WIDTH_PER_FONT = 26;
const LINE = 1.5;
const LEAST_CELL = 96;
/** In heights of a letter. */
const WIDEST_LABEL = 18;

/** Cells keep the pictures' own size unless the whole would be larger than browsers can draw. */
export function cellSize({ rows, columns, width, height }: GridPicture): Size {
  const down = Math.max(rows.length, 1);
  const across = Math.max(columns.length, 1);
  const grown = Math.max(1, LEAST_CELL / Math.max(width, 1));
  const scale = Math.min(
    grown,
    (LARGEST_SIDE - GAP * (across + 2)) / ((across + WIDEST_LABEL / WIDTH_PER_FONT) * width),
    (LARGEST_SIDE - GAP * (down + 4)) / (down * height + (2 * LINE * width) / WIDTH_PER_FONT),
    Math.sqrt(LARGEST_AREA / (down * height * across * width)),
  );
  return { width: Math.max(1, Math.floor(width * scale)), height: Math.max(1, Math.floor(height * scale)) };
}

/** Where cells begin, and how large the letters are. */
interface Frame {
  font: number;
  left: number;
  top: number;
  cell: Size;
}

export async function drawGrid(grid: GridPicture): Promise<Blob> {
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d");
  if (!context) throw new Error(t("gallery.no_canvas"));
  const frame = frameOf(grid, context);
  const { left, top, cell } = frame;
  canvas.width = left + grid.columns.length * (cell.width + GAP);
  canvas.height = top + grid.rows.length * (cell.height + GAP);
  context.fillStyle = GROUND;
  context.fillRect(0, 0, canvas.width, canvas.height);
  drawLabels(grid, context, frame);
  for (const [row, results] of grid.cells.entries()) {
    for (const [column, result] of results.entries()) {
      const box = { x: left + column * (cell.width + GAP), y: top + row * (cell.height + GAP), ...cell };
      if (result) drawInside(context, await loadPicture(result), box);
      else outline(context, box);
    }
  }
  return await asPng(canvas);
}

function frameOf(grid: GridPicture, context: CanvasRenderingContext2D): Frame {
  const cell = cellSize(grid);
  const font = Math.max(LEAST_FONT, Math.round(cell.width / WIDTH_PER_FONT));
  context.font = `${font}px ${FACE}`;
  const widest = Math.max(0, ...grid.rows.map((row) => context.measureText(row).width));
  const label = Math.min(WIDEST_LABEL * font, Math.ceil(widest));
  return { cell, font, left: label ? label + 2 * GAP : GAP, top: Math.ceil(2 * LINE * font) + 2 * GAP };
}

function drawLabels(grid: GridPicture, context: CanvasRenderingContext2D, { cell, font, left, top }: Frame): void {
  const half = (LINE * font) / 2;
  context.fillStyle = INK;
  context.textBaseline = "middle";
  context.font = `600 ${font}px ${FACE}`;
  write(context, grid.title, { x: GAP, y: GAP + half, room: context.canvas.width - 2 * GAP });
  context.font = `${font}px ${FACE}`;
  grid.columns.forEach((text, at) =>
    write(context, text, { x: left + at * (cell.width + GAP), y: top - GAP - half, room: cell.width }),
  );
  grid.rows.forEach((text, at) =>
    write(context, text, { x: GAP, y: top + at * (cell.height + GAP) + cell.height / 2, room: left - 2 * GAP }),
  );
}

function drawInside(context: CanvasRenderingContext2D, picture: HTMLImageElement, box: Box): void {
  const scale = Math.min(box.width / picture.naturalWidth, box.height / picture.naturalHeight);
  const width = picture.naturalWidth * scale;
  const height = picture.naturalHeight * scale;
  context.imageSmoothingEnabled = scale < 1;
  context.drawImage(picture, box.x + (box.width - width) / 2, box.y + (box.height - height) / 2, width, height);
}

function outline(context: CanvasRenderingContext2D, { x, y, width, height }: Box): void {
  context.strokeStyle = EDGE;
  context.strokeRect(x + 0.5, y + 0.5, width - 1, height - 1);
}

/** In one line; what is longer than the room ends in an ellipsis. */
function write(
  context: CanvasRenderingContext2D,
  text: string,
  { x, y, room }: { x: number; y: number; room: number },
): void {
  let end = text.length;
  const shown = () => (end === text.length ? text : `${text.slice(0, end)}…`);
  while (end > 1 && context.measureText(shown()).width > room) end -= 1;
  context.fillText(shown(), x, y);
}

function asPng(canvas: HTMLCanvasElement): Promise<Blob> {
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error(t("gallery.no_png")))));
  });
}
