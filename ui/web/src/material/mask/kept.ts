/** Strokes that are in no file yet, kept when a painter is closed: in this tab, and as far as there is room in the browser. */

import { pageStore } from "../../store/page";

export interface Strokes {
  width: number;
  height: number;
  data: Uint8Array;
}

const PREFIX = "loom.mask.";
const MOST_CHARACTERS = 1_000_000;
const MOST_KEPT = 4;

const inTab = new Map<string, Strokes>();

/** `what` names the picture and the mask that were painted on. */
export function keptStrokes(what: string): Strokes | null {
  const here = inTab.get(keyOf(what));
  if (here) return here;
  try {
    const [width = "", height = "", runs = ""] = (localStorage.getItem(keyOf(what)) ?? "").split(" ");
    const data = fromRuns(runs, Number(width) * Number(height));
    return data && { width: Number(width), height: Number(height), data };
  } catch {
    return null;
  }
}

export function keepStrokes(what: string, { width, height, data }: Strokes): void {
  const key = keyOf(what);
  inTab.set(key, { width, height, data: data.slice() });
  try {
    localStorage.removeItem(key);
    const runs = toRuns(data);
    if (runs.length > MOST_CHARACTERS) return;
    const others = Object.keys(localStorage).filter((other) => other.startsWith(PREFIX));
    for (const other of others.slice(0, others.length - MOST_KEPT + 1)) localStorage.removeItem(other);
    localStorage.setItem(key, `${width} ${height} ${runs}`);
  } catch {
    // A browser that is full or keeps nothing: they stay in the tab.
  }
}

export function dropStrokes(what: string): void {
  inTab.delete(keyOf(what));
  try {
    localStorage.removeItem(keyOf(what));
  } catch {
    // It keeps nothing, so there is nothing to drop.
  }
}

/** "value.count" in base 36 for each run of equal bytes. */
export function toRuns(data: Uint8Array): string {
  const runs: string[] = [];
  for (let at = 0; at < data.length; ) {
    const value = data[at]!;
    const first = at;
    while (at < data.length && data[at] === value) at++;
    runs.push(`${value.toString(36)}.${(at - first).toString(36)}`);
  }
  return runs.join(",");
}

/** Null for what is no mask of so many bytes. */
export function fromRuns(text: string, length: number): Uint8Array | null {
  if (!text || !Number.isSafeInteger(length)) return null;
  const data = new Uint8Array(length);
  let at = 0;
  for (const run of text.split(",")) {
    const [value = NaN, count = NaN] = run.split(".").map((part) => parseInt(part, 36));
    if (!(value >= 0 && value <= 255 && count > 0 && at + count <= length)) return null;
    data.fill(value, at, at + count);
    at += count;
  }
  return at === length ? data : null;
}

function keyOf(what: string): string {
  return `${PREFIX}${pageStore.getState().me?.user ?? ""} ${what}`;
}
