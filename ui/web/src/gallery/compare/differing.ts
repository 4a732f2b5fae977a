/** What differs between two results, for the head of the comparison. */
import { asRead } from "../../exact";
import type { TextKey } from "../../i18n";
import type { Catalog, Result } from "../../types";
import { differences, type Difference, type Side } from "../../graph/difference";
import { shown } from "../sweeps/sweepTable";

/** Facts that are no declared params; their names are keys of texts. */
const FACTS: readonly { key: TextKey; of: (result: Result) => string }[] = [
  { key: "gallery.prompt", of: (result) => result.prompt ?? "" },
  { key: "gallery.seed", of: (result) => (result.seed === null ? "" : asRead(result.seed)) },
  { key: "gallery.plan", of: (result) => result.plan ?? "" },
  { key: "gallery.size", of: (result) => (result.kind === "audio" ? "" : `${result.width} x ${result.height}`) },
  { key: "gallery.frames", of: (result) => (result.kind === "video" ? String(result.frames) : "") },
  { key: "gallery.length", of: (result) => (result.kind === "audio" ? `${result.length_s} s` : "") },
  { key: "gallery.sound", of: (result) => (result.rate > 0 ? `${result.channels} x ${result.rate} Hz` : "") },
  { key: "gallery.workflow", of: (result) => result.workflow_name },
];

/** Both results' makers, where their workflows are known. */
export interface Makers {
  a: Side;
  b: Side;
  catalog: Catalog;
}

/**
 * `label` turns the key of a text into the text. What means the same is not told twice. Without `makers`, of the nodes'
 * inputs only those are told that a sweep varied.
 */
export function differing(a: Result, b: Result, label: (key: TextKey) => string, makers?: Makers): Difference[] {
  const names = [...new Set([...Object.keys(a.params), ...Object.keys(b.params)])];
  const params = names.map((name): Difference => ({ kind: "value", name, a: valueOf(a, name), b: valueOf(b, name) }));
  const facts = FACTS.map(({ key, of }) => ({
    ...{ key: key.replace("gallery.", ""), kind: "value" as const },
    ...{ name: label(key), a: of(a), b: of(b) },
  }))
    .filter(({ key }) => !names.includes(key))
    .filter((fact) => fact.a !== fact.b);
  const inputs = makers
    ? differences(makers.a, makers.b, makers.catalog).filter((row) => row.param === undefined)
    : variedApart(a, b);
  const isTold = (row: Difference) =>
    facts.some((fact) => row.name.endsWith(`.${fact.key}`) && row.a === fact.a && row.b === fact.b);
  return [
    ...params.filter((row) => row.a !== row.b),
    ...facts.map(({ key: _, ...row }) => row),
    ...inputs.filter((row) => !isTold(row)),
  ];
}

function variedApart(a: Result, b: Result): Difference[] {
  const all = [...new Set([...Object.keys(a.varied), ...Object.keys(b.varied)])];
  const names = all.filter((name) => !(name in a.params || name in b.params));
  const rows = names.map(
    (name): Difference => ({ kind: "value", name, a: shown(a.varied[name] ?? ""), b: shown(b.varied[name] ?? "") }),
  );
  return rows.filter((row) => row.a !== row.b);
}

function valueOf(result: Result, name: string): string {
  return name in result.params ? shown(result.params[name]) : "";
}
