/** Where the entries of a long list lie, which of them are near what is looked at, and how far that moved. */

/** From the top of the list, px; boxes are in the order of their tops. */
export interface Box {
  key: string;
  top: number;
  height: number;
}

/** The first box that reaches below `from`, and the one behind the last that begins above `to`. */
export function between(boxes: readonly Box[], from: number, to: number): readonly [first: number, end: number] {
  const first = firstOf(boxes, ({ top, height }) => top + height > from);
  return [
    first,
    Math.max(
      first,
      firstOf(boxes, ({ top }) => top >= to),
    ),
  ];
}

/** Boxes below each other. */
export function stacked(keys: readonly string[], heightOf: (key: string) => number): Box[] {
  let top = 0;
  return keys.map((key) => {
    const box = { key, top, height: heightOf(key) };
    top += box.height;
    return box;
  });
}

export function heightOf(boxes: readonly Box[]): number {
  const last = boxes.at(-1);
  return last ? last.top + last.height : 0;
}

/** How far what was seen has moved, by the first of it that is still there. */
export function shiftOf(seen: readonly Box[], boxes: readonly Box[]): number {
  if (seen.length === 0) return 0;
  const tops = new Map(boxes.map(({ key, top }) => [key, top]));
  const kept = seen.find(({ key }) => tops.has(key));
  return kept ? (tops.get(kept.key) ?? 0) - kept.top : 0;
}

/** By halving: what `holds` for one box holds for all behind it. */
function firstOf(boxes: readonly Box[], holds: (box: Box) => boolean): number {
  let [low, high] = [0, boxes.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const box = boxes[middle];
    if (box && holds(box)) high = middle;
    else low = middle + 1;
  }
  return low;
}
