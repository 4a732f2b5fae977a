/** What the server says, in the page's words: its sentences come in English, and are found by it, with their values. */

interface Pattern {
  /** A part that a sentence must hold, looked for first. */
  anchor: string;
  pattern: RegExp;
  words: string;
}

const HOLE = "{}";
/** Says of which node the rest is: found first, or a sentence about the rest would take this for a part of it. */
const OF_NODE = "node {} (";
const MOST_KEPT = 2000;

let whole: ReadonlyMap<string, string> = new Map();
let patterns: readonly Pattern[] = [];
let nameOf: (name: string) => string | undefined = () => undefined;
const kept = new Map<string, string>();

/** Use a table from the server's sentences, `{}` for each value, to ours, `{0}` for the first of them. `named` has the
 * words for what stands in a hole. */
export function setSentences(
  table: Readonly<Record<string, string>>,
  named: (name: string) => string | undefined,
): void {
  const all = Object.entries(table);
  whole = new Map(all.filter(([sentence]) => !sentence.includes(HOLE)));
  patterns = all
    .filter(([sentence]) => sentence.includes(HOLE))
    .sort(([a], [b]) => Number(b.startsWith(OF_NODE)) - Number(a.startsWith(OF_NODE)) || known(b) - known(a))
    .map(([sentence, words]) => ({ parts: sentence.split(HOLE), words }))
    .map(({ parts, words }) => ({
      anchor: parts.reduce((longest, part) => (part.length > longest.length ? part : longest)),
      pattern: new RegExp(`^${parts.map(escaped).join("(.*?)")}$`, "s"),
      words,
    }));
  nameOf = named;
  kept.clear();
}

/** A sentence in the page's language, and without what only a command line has; as it is where we have no words for it. */
export function worded(sentence: string): string {
  let found = kept.get(sentence);
  if (found === undefined) {
    found = inWords(sentence) ?? inParts(sentence, "\n") ?? inParts(sentence, "; ") ?? sentence;
    if (kept.size > MOST_KEPT) kept.clear();
    kept.set(sentence, found);
  }
  return found;
}

/** How many characters of a sentence are always the same. */
function known(sentence: string): number {
  return sentence.replaceAll(HOLE, "").length;
}

function inWords(sentence: string): string | undefined {
  const same = whole.get(sentence);
  if (same !== undefined) return same;
  for (const { anchor, pattern, words } of patterns) {
    const values = sentence.includes(anchor) ? pattern.exec(sentence) : null;
    if (values) return words.replace(/\{(\d+)\}/g, (_, hole: string) => valued(values[Number(hole) + 1] ?? ""));
  }
  return undefined;
}

function valued(value: string): string {
  return nameOf(value) ?? worded(value);
}

/** Several sentences in one; undefined where none of them is known. */
function inParts(sentence: string, between: string): string | undefined {
  const parts = sentence.split(between);
  if (parts.length < 2) return undefined;
  const told = parts.map(worded);
  return told.some((part, index) => part !== parts[index]) ? told.join(between) : undefined;
}

function escaped(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
