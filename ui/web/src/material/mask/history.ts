/** Undo and redo of a mask: of each edit only the part that it changed is kept. */

import type { Box, Mask } from "./coverage";

interface Patch {
  box: Box;
  /** What was there before, or behind an undo what comes back. */
  data: Uint8Array;
}

/** Bytes of patches that are kept; the oldest go first. */
const MOST_BYTES = 128 * 1024 * 1024;

export class MaskHistory {
  private past: Patch[] = [];
  private future: Patch[] = [];
  private bytes = 0;

  get canUndo(): boolean {
    return this.past.length > 0;
  }

  get canRedo(): boolean {
    return this.future.length > 0;
  }

  /** An edit inside `box` is done; `before` is the whole mask as it was. An edit that changed nothing is none. */
  record(mask: Mask, before: Uint8Array, box: Box | null): boolean {
    const changed = box && changedIn(mask, before, box);
    if (!changed) return false;
    for (const { data } of this.future) this.bytes -= data.length;
    this.future = [];
    const patch = { box: changed, data: taken(before, mask.width, changed) };
    this.past.push(patch);
    this.bytes += patch.data.length;
    while (this.bytes > MOST_BYTES && this.past.length > 1) this.bytes -= this.past.shift()!.data.length;
    return true;
  }

  /** The part that changed; null where there is nothing to take back. */
  undo(mask: Mask): Box | null {
    return exchange(mask, this.past, this.future);
  }

  redo(mask: Mask): Box | null {
    return exchange(mask, this.future, this.past);
  }
}

function exchange(mask: Mask, from: Patch[], to: Patch[]): Box | null {
  const patch = from.pop();
  if (!patch) return null;
  to.push({ box: patch.box, data: taken(mask.data, mask.width, patch.box) });
  const { left, top, right, bottom } = patch.box;
  const wide = right - left;
  for (let y = top; y < bottom; y++) {
    mask.data.set(patch.data.subarray((y - top) * wide, (y - top + 1) * wide), y * mask.width + left);
  }
  return patch.box;
}

function taken(data: Uint8Array, width: number, { left, top, right, bottom }: Box): Uint8Array {
  const wide = right - left;
  const part = new Uint8Array(wide * (bottom - top));
  for (let y = top; y < bottom; y++) part.set(data.subarray(y * width + left, y * width + right), (y - top) * wide);
  return part;
}

function changedIn({ data, width }: Mask, before: Uint8Array, { left, top, right, bottom }: Box): Box | null {
  let box: Box | null = null;
  for (let y = top; y < bottom; y++) {
    for (let x = left; x < right; x++) {
      if (data[y * width + x] === before[y * width + x]) continue;
      box ??= { left: x, top: y, right: x + 1, bottom: y + 1 };
      box.left = Math.min(box.left, x);
      box.right = Math.max(box.right, x + 1);
      box.bottom = y + 1;
    }
  }
  return box;
}
