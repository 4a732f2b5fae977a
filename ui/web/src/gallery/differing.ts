/** What differs between two results, for the head of the comparison. */
import type { TextKey } from "../i18n";
import type { Result } from "../types";
import { shown } from "./sweep";

export interface Difference {
  name: string;
  a: string;
  b: string;
}

/** Facts that are no declared params; their names are keys of texts. */
const FACTS: readonly { key: TextKey; of: (result: Result) => string }[] = [
  { key: "gallery.prompt", of: (result) => result.prompt ?? "" },
  { key: "gallery.seed", of: (result) => (result.seed === null ? "" : String(result.seed)) },
  { key: "gallery.plan", of: (result) => result.plan ?? "" },
  { key: "gallery.size", of: (result) => `${result.width} x ${result.height}` },
  { key: "gallery.frames", of: (result) => (result.kind === "video" ? String(result.frames) : "") },
  { key: "gallery.workflow", of: (result) => result.workflow_name },
];

/** `label` turns the key of a text into the text. A declared param of the same meaning is not told twice. */
export function differing(a: Result, b: Result, label: (key: TextKey) => string): Difference[] {
  const names = [...new Set([...Object.keys(a.params), ...Object.keys(b.params)])];
  const params = names.map((name) => ({ name, a: valueOf(a, name), b: valueOf(b, name) }));
  const facts = FACTS.filter(({ key }) => !names.includes(key.replace("gallery.", ""))).map(({ key, of }) => ({
    name: label(key),
    a: of(a),
    b: of(b),
  }));
  return [...params, ...facts].filter((row) => row.a !== row.b);
}

function valueOf(result: Result, name: string): string {
  return name in result.params ? shown(result.params[name]) : "";
}
