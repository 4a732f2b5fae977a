/** Names of nodes, params, reroutes: legal ones, and fresh ones. */

const NAME = /^[a-z][a-z0-9_]{0,63}$/;
const MAX_LENGTH = 64;

export function isName(text: string): boolean {
  return NAME.test(text);
}

/** A legal name close to any text: "Load Model" becomes "load_model". */
export function nameFrom(text: string, fallback = "node"): string {
  const parts = text
    .normalize("NFKD")
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "_")
    .replace(/^[^a-z]+|_+$/g, "");
  return parts.slice(0, MAX_LENGTH) || fallback;
}

/** A name that is not taken: the wanted one, or that with the next free number. */
export function freshName(wanted: string, taken: (name: string) => boolean): string {
  if (!taken(wanted)) return wanted;
  const stem = wanted.replace(/_\d+$/, "");
  for (let number = 2; ; number++) {
    const ending = `_${number}`;
    const name = stem.slice(0, MAX_LENGTH - ending.length) + ending;
    if (!taken(name)) return name;
  }
}
