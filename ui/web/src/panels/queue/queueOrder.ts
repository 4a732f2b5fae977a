/** Where a dragged run goes among those that wait: what the server is told to put it in front of; null is the end. */

/** Dropped on one further down, a run goes behind it; on one further up, in front of it. */
export function beforeOf(waiting: readonly string[], dragged: string, on: string): string | null {
  const [from, to] = [waiting.indexOf(dragged), waiting.indexOf(on)];
  return (from < to ? waiting[to + 1] : on) ?? null;
}
