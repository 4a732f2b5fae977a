/** Ranking of what is searched for: beginnings first, then words, then letters in order. */

const NONE = Number.POSITIVE_INFINITY;

/** How far a text is from what was typed; infinite where it does not match. `also` are other words for it. */
export function distance(query: string, label: string, more: string, also: readonly string[] = []): number {
  const wanted = query.trim().toLowerCase();
  if (!wanted) return 0;
  const text = label.toLowerCase();
  if (text.startsWith(wanted)) return 1;
  if (text.split(/[\s_]+/).some((word) => word.startsWith(wanted))) return 2;
  if (also.some((word) => word.startsWith(wanted))) return 2.5;
  if (text.includes(wanted)) return 3;
  if (also.some((word) => word.includes(wanted))) return 3.5;
  if (wanted.split(/\s+/).every((word) => text.includes(word) || more.toLowerCase().includes(word))) return 4;
  return isScattered(wanted.replaceAll(" ", ""), text) ? 5 : NONE;
}

/** Whether the letters come in this order: "lmd" finds "Load Model". */
function isScattered(letters: string, text: string): boolean {
  let from = 0;
  for (const letter of letters) {
    from = text.indexOf(letter, from) + 1;
    if (from === 0) return false;
  }
  return true;
}

export interface Searchable {
  label: string;
  /** Searched besides the label. */
  more: string;
  /** Other words for it, in small letters. */
  also?: readonly string[];
}

/** What matches, best first; equal ones in their old order. */
export function found<T extends Searchable>(items: readonly T[], query: string): T[] {
  return items
    .map((item) => ({ item, rank: distance(query, item.label, item.more, item.also) }))
    .filter(({ rank }) => rank < NONE)
    .sort((a, b) => a.rank - b.rank)
    .map(({ item }) => item);
}
