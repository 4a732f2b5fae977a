/** What this browser remembers of the simple view: the workflow chosen, its last values, its last run. */

import { pageStore } from "../store/page";
import type { FormValues } from "./formFields";

const KEY = "latentloom.simple";

/** Of the workflows used last; older ones are forgotten. */
const MAX_KEPT = 40;

interface Kept {
  values: FormValues;
  run: string | null;
}

interface Memory {
  chosen: string;
  /** By workflow, the one used last at the end. */
  kept: Record<string, Kept>;
}

export function chosenBefore(): string {
  return read().chosen;
}

export function rememberChosen(workflow: string): void {
  write({ ...read(), chosen: workflow });
}

export function keptOf(workflow: string): Kept {
  const kept = read().kept;
  return (Object.hasOwn(kept, workflow) ? kept[workflow] : undefined) ?? { values: {}, run: null };
}

export function keep(workflow: string, change: Partial<Kept>): void {
  const memory = read();
  const { [workflow]: before, ...others } = memory.kept;
  const entries = Object.entries(others).slice(-(MAX_KEPT - 1));
  const kept = { ...Object.fromEntries(entries), [workflow]: { values: {}, run: null, ...before, ...change } };
  write({ ...memory, kept });
}

/** Of each user of a server with a login: another one at the same browser sees none of it. */
function key(): string {
  const me = pageStore.getState().me;
  return me?.has_auth ? `${KEY}:${me.user}` : KEY;
}

function read(): Memory {
  const empty: Memory = { chosen: "", kept: {} };
  try {
    const found: unknown = JSON.parse(localStorage.getItem(key()) ?? "null");
    if (!isRecord(found) || typeof found.chosen !== "string" || !isRecord(found.kept)) return empty;
    const kept = Object.entries(found.kept).filter((entry): entry is [string, Kept] => isKept(entry[1]));
    return { chosen: found.chosen, kept: Object.fromEntries(kept) };
  } catch {
    return empty; // no storage (a private window), or another program's text
  }
}

function write(memory: Memory): void {
  try {
    localStorage.setItem(key(), JSON.stringify(memory));
  } catch {
    return; // full or forbidden: the view works, it only forgets
  }
}

function isKept(value: unknown): value is Kept {
  return isRecord(value) && isRecord(value.values) && (value.run === null || typeof value.run === "string");
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
