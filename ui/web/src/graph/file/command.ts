/** A workflow as the command that runs its file with the values of the canvas. */

import { asRead } from "../../exact";
import type { EditorGraph } from "../../types";
import { own } from "../record";
import { isLink, isParamRef, plainValue } from "../values";

const PLAIN = /^[\w@%+=:,./-]+$/;

/** `latentloom run FILE --set ...`, quoted for a POSIX shell, with the values of some nodes; a param's by its name. */
export function shellCommand(graph: EditorGraph, names: readonly string[]): string {
  const given = new Map<string, string>();
  for (const name of names) {
    for (const [socket, held] of Object.entries(own(graph.nodes, name)?.inputs ?? {})) {
      const value = isLink(held) ? undefined : plainValue(graph, held);
      if (value !== undefined && value !== null)
        given.set(isParamRef(held) ? held.param : `${name}.${socket}`, asRead(value));
    }
  }
  const sets = [...given].map(([name, value]) => `--set ${quoted(`${name}=${value}`)}`);
  return ["latentloom run", quoted(fileOf(graph)), ...sets].join(" ");
}

/** As "Save to disk" calls it; one that begins like an option does not look like one. */
function fileOf({ name }: EditorGraph): string {
  const file = `${name || "workflow"}.json`.replaceAll("/", "_");
  return file.startsWith("-") ? `./${file}` : file;
}

/** One word of a shell; no argument can have a NUL. */
export function quoted(word: string): string {
  const text = word.replaceAll("\0", "");
  return PLAIN.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
