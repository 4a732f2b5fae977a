/** What people of other tools call our nodes, what of theirs is not here, and which nodes come first. */

import { own } from "../../graph/record";
import type { NodeSpec } from "../../types";
import data from "./synonyms.json";

interface Missing {
  /** As its own tool calls it. */
  what: string;
  words: readonly string[];
  /** Node types that come nearest to it. */
  nearest: readonly string[];
}

/** Names of other tools, by node type. */
const NODES: Readonly<Record<string, readonly string[]>> = data.nodes;
/** What Germans type, whatever language the page has. */
const GERMAN: Readonly<Record<string, readonly string[]>> = data.german;
const MISSING: readonly Missing[] = data.missing;
/** Node types, those that the shipped workflows have most of first. */
const USUAL: readonly string[] = data.usual;
const FEWEST_LETTERS = 3;

/** Other words for a node, and for what it is the nearest to. */
export function otherWords(type: string): string[] {
  const nearest = MISSING.filter((each) => each.nearest.includes(type)).flatMap(({ words }) => words);
  return [...otherNames(type), ...(own(GERMAN, type) ?? []), ...nearest];
}

/** What people of other tools call a node. */
export function otherNames(type: string): readonly string[] {
  return own(NODES, type) ?? [];
}

/** What other tools have and this one has not, as far as this node comes nearest to it. */
export function nearestTo(type: string): string[] {
  return MISSING.filter(({ nearest }) => nearest.includes(type)).map(({ what }) => what);
}

/** What was looked for and is not here; null where a node may be what is meant. */
export function missingOf(query: string): Missing | null {
  const wanted = joined(query);
  if (wanted.length < FEWEST_LETTERS) return null;
  const isMeant = (word: string) => joined(word).startsWith(wanted) || wanted.startsWith(joined(word));
  const isHere = Object.values(NODES).some((words) => words.some((word) => joined(word).startsWith(wanted)));
  return isHere ? null : (MISSING.find(({ words }) => words.some(isMeant)) ?? null);
}

/** The most fitting first: by how well a socket fits, then what was used last, then what is used most. */
export function inUse<T extends { spec: NodeSpec; fit?: number }>(items: readonly T[], used: readonly string[]): T[] {
  const place = (list: readonly string[], type: string) => (list.includes(type) ? list.indexOf(type) : list.length);
  return [...items].sort(
    (a, b) =>
      (b.fit ?? 0) - (a.fit ?? 0) ||
      place(used, a.spec.id) - place(used, b.spec.id) ||
      place(USUAL, a.spec.id) - place(USUAL, b.spec.id),
  );
}

function joined(text: string): string {
  return text.toLowerCase().replace(/[\s_-]+/g, "");
}
