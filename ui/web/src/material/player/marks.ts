/** Where a part of a video or a sound begins and ends, and what playing does with it. Times are seconds. */

export interface Marks {
  /** null: at the beginning. */
  start: number | null;
  /** null: at the end. */
  end: number | null;
}

export const NO_MARKS: Marks = { start: null, end: null };
export const SPEEDS = [0.25, 0.5, 1, 1.5, 2] as const;

/** A mark set at a time; the other one goes where it would lie on the wrong side of it. */
export function marked(marks: Marks, which: "start" | "end", time: number): Marks {
  const next = { ...marks, [which]: time };
  const isTurned = next.start !== null && next.end !== null && next.start >= next.end;
  if (!isTurned) return next;
  return which === "start" ? { start: time, end: null } : { start: null, end: time };
}

export function partOf({ start, end }: Marks, length: number): { start: number; end: number } {
  return { start: start ?? 0, end: Math.min(end ?? length, length) };
}

/** Where playing goes on that has come to `time`: back to the first mark, or null where it just goes on. */
export function turnedBack(marks: Marks, time: number, length: number): number | null {
  const { start, end } = partOf(marks, length);
  return marks.end !== null && time >= end ? start : null;
}

/** The frame that is shown at a time. */
export function frameAt(time: number, fps: number, frames: number): number {
  return Math.min(Math.max(Math.floor(time * fps + 1e-3), 0), Math.max(frames - 1, 0));
}

/** The middle of a frame: a time at its border may show the one before. */
export function timeOf(frame: number, fps: number): number {
  return (frame + 0.5) / fps;
}

/** The marked frames, both ends counted, as Load Video takes them. */
export function framesOf(marks: Marks, fps: number, frames: number): { start: number; frames: number } {
  const first = marks.start === null ? 0 : frameAt(marks.start, fps, frames);
  const last = marks.end === null ? frames - 1 : frameAt(marks.end, fps, frames);
  return { start: first, frames: Math.max(last - first + 1, 1) };
}
