/** What the server says, in the page's words. A sentence comes in English; beside it the answer has how it was made, by
 * the English with `{}` for each value. That is what our words are looked up by; where there are none it stays as it is. */

/** How a sentence was made; a value may be a sentence itself. */
interface Words {
  text_id: string;
  values: string[];
}

const MOST_KNOWN = 10_000;

let table: ReadonlyMap<string, string> = new Map();
let nameOf: (name: string) => string | undefined = () => undefined;
const known = new Map<string, Words>();

/** Use a table from text ids to our words, `{0}` for the first value. `named` has the words for what may be a value. */
export function setSentences(
  sentences: Readonly<Record<string, string>>,
  named: (name: string) => string | undefined,
): void {
  table = new Map(Object.entries(sentences));
  nameOf = named;
}

/** What came from the server; how its sentences were made is remembered. */
export function heard<T>(answer: T): T {
  if (Array.isArray(answer)) for (const each of answer) remember(each);
  else remember(answer);
  return answer;
}

/** A sentence in the page's language, and without what only a command line has; as it is where we have no words for it. */
export function worded(sentence: string): string {
  return inWords(sentence) ?? inParts(sentence, "\n") ?? inParts(sentence, "; ") ?? sentence;
}

function remember(answer: unknown): void {
  const { said } = (answer ?? {}) as { said?: Record<string, Words> };
  for (const [sentence, words] of Object.entries(said ?? {})) {
    if (known.size >= MOST_KNOWN) known.clear();
    known.set(sentence, words);
  }
}

function inWords(sentence: string): string | undefined {
  const { text_id, values } = known.get(sentence) ?? { text_id: sentence, values: [] };
  const words = table.get(text_id);
  return words?.replace(/\{(\d+)\}/g, (_, hole: string) => valued(values[Number(hole)] ?? ""));
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
