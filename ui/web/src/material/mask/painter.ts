/** A mask being painted: strokes, outlines and whole edits, each undone as one. It knows neither page nor pointer. */

import {
  drawStroke,
  emptyMask,
  feather,
  fillOutline,
  flood,
  invert,
  joined,
  wholeOf,
  type Box,
  type Colours,
  type Mask,
  type Spot,
  type Touch,
} from "./coverage";
import { MaskHistory } from "./history";

export class Painter {
  readonly mask: Mask;
  readonly history = new MaskHistory();
  /** Grows with each change: what shows the mask asks for it. */
  revision = 0;
  /** Whether strokes were made since it was opened or saved. */
  isChanged = false;
  private readonly listeners = new Set<() => void>();
  private stroke: { before: Uint8Array; last: Touch; box: Box | null; isErasing: boolean } | null = null;
  private dirty: Box | null;

  constructor(width: number, height: number, data?: Uint8Array) {
    this.mask = emptyMask(width, height);
    if (data) this.mask.data.set(data);
    this.dirty = wholeOf(this.mask);
  }

  subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** The part that changed since it was asked last. */
  takeDirty(): Box | null {
    const { dirty } = this;
    this.dirty = null;
    return dirty;
  }

  get isDrawing(): boolean {
    return this.stroke !== null;
  }

  down(touch: Touch, isErasing: boolean): void {
    this.up();
    this.stroke = { before: this.mask.data.slice(), last: touch, box: null, isErasing };
    this.move(touch);
  }

  move(touch: Touch): void {
    const { stroke } = this;
    if (!stroke) return;
    const box = drawStroke(this.mask, stroke.last, touch, stroke.isErasing);
    stroke.last = touch;
    stroke.box = joined(stroke.box, box);
    if (box) this.show(box);
  }

  up(): void {
    const { stroke } = this;
    if (!stroke) return;
    this.stroke = null;
    this.settle(stroke.before, stroke.box);
  }

  /** Take the stroke under way back, as when a second finger comes down. */
  cancel(): void {
    if (!this.stroke) return;
    this.mask.data.set(this.stroke.before);
    const { box } = this.stroke;
    this.stroke = null;
    this.show(box);
  }

  outline(corners: readonly Spot[], isErasing: boolean): void {
    this.change((mask) => fillOutline(mask, corners, isErasing));
  }

  fill(spot: Spot, options: { isErasing: boolean; picture?: Colours; tolerance?: number }): void {
    this.change((mask) => flood(mask, spot, options));
  }

  invert(): void {
    this.change((mask) => (invert(mask), wholeOf(mask)));
  }

  /** All of it painted (255), or none (0). */
  all(value: 0 | 255): void {
    this.change((mask) => (mask.data.fill(value), wholeOf(mask)));
  }

  feather(radius: number): void {
    this.change((mask) => (feather(mask, radius), wholeOf(mask)));
  }

  undo(): void {
    this.up();
    this.took(this.history.undo(this.mask));
  }

  redo(): void {
    this.up();
    this.took(this.history.redo(this.mask));
  }

  /** The mask as it is now is in a file. */
  markSaved(): void {
    this.isChanged = false;
  }

  private change(make: (mask: Mask) => Box | null): void {
    this.up();
    const before = this.mask.data.slice();
    const box = make(this.mask);
    this.settle(before, box);
    this.show(box);
  }

  private settle(before: Uint8Array, box: Box | null): void {
    if (this.history.record(this.mask, before, box)) this.isChanged = true;
    this.show(null);
  }

  private took(box: Box | null): void {
    if (!box) return;
    this.isChanged = true;
    this.show(box);
  }

  private show(box: Box | null): void {
    this.dirty = joined(this.dirty, box);
    this.revision++;
    for (const listener of this.listeners) listener();
  }
}
