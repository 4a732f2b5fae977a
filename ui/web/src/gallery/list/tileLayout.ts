/** Where each result lies in the gallery: rows of square tiles, day by day. */

import type { Box } from "../../parts/long/boxes";
import type { Result } from "../../types";
import { byDay } from "../resultPages";

export interface TileBox extends Box {
  left: number;
  /** Its number among those of its day, from 1. */
  place: number;
}

export interface DayBox {
  /** Midnight of that day here, ms since 1970. */
  start: number;
  top: number;
  height: number;
  /** The index of its first result. */
  first: number;
  count: number;
}

export interface TileLayout {
  side: number;
  days: readonly DayBox[];
  tiles: readonly TileBox[];
  height: number;
}

/** In px. */
export interface Measures {
  width: number;
  /** A tile is at least so wide. */
  least: number;
  gap: number;
  /** Of a day's heading. */
  heading: number;
  between: number;
}

export function layOut(items: readonly Result[], { width, least, gap, heading, between }: Measures): TileLayout {
  const columns = Math.max(Math.floor((width + gap) / (least + gap)), 1);
  const side = Math.max((width - gap * (columns - 1)) / columns, 1);
  const days: DayBox[] = [];
  const tiles: TileBox[] = [];
  let top = 0;
  for (const { start, items: ofDay } of byDay(items)) {
    const rows = Math.ceil(ofDay.length / columns);
    days.push({
      start,
      top,
      height: heading + rows * side + (rows - 1) * gap,
      first: tiles.length,
      count: ofDay.length,
    });
    ofDay.forEach(({ id }, at) => {
      const [row, column] = [Math.floor(at / columns), at % columns];
      const place = { top: top + heading + row * (side + gap), left: column * (side + gap) };
      tiles.push({ key: id, ...place, height: side, place: at + 1 });
    });
    top += (days.at(-1)?.height ?? 0) + between;
  }
  return { side, days, tiles, height: Math.max(top - between, 0) };
}

/** Where a key leads from a tile: the next one, the one above or below it, a window further, or either end. */
export function tileBeside(tiles: readonly TileBox[], at: number, key: string, windowHeight: number): number | null {
  const last = tiles.length - 1;
  switch (key) {
    case "ArrowLeft":
      return Math.max(at - 1, 0);
    case "ArrowRight":
      return Math.min(at + 1, last);
    case "ArrowUp":
      return inRow(tiles, at, -1, 1);
    case "ArrowDown":
      return inRow(tiles, at, 1, 1);
    case "PageUp":
      return inRow(tiles, at, -1, windowHeight);
    case "PageDown":
      return inRow(tiles, at, 1, windowHeight);
    case "Home":
      return 0;
    case "End":
      return last;
    default:
      return null;
  }
}

/** The tile of the same column, or nearest to it, in the first row that lies at least so far away; else in the last. */
function inRow(tiles: readonly TileBox[], at: number, direction: 1 | -1, far: number): number {
  const from = tiles[at];
  if (!from) return at;
  let best = at;
  let rowTop = from.top;
  for (let next = at + direction; tiles[next]; next += direction) {
    const tile = tiles[next] as TileBox;
    if (tile.top === from.top) continue;
    const isNewRow = tile.top !== rowTop;
    if (isNewRow && rowTop !== from.top && Math.abs(rowTop - from.top) >= far) break;
    const isNearer = Math.abs(tile.left - from.left) < Math.abs((tiles[best] as TileBox).left - from.left);
    if (isNewRow || isNearer) best = next;
    rowTop = tile.top;
  }
  return best;
}
