/** What fed a node in a run, by the names that nodes of sub-workflows and for-each have there: "paint/2/denoise". */

import type { EditorGraph, InputValue, NodeFile } from "../types";
import { own } from "./record";
import { subOf } from "./subs";
import { isLink, isParamRef, splitTarget } from "./values";

interface Scope {
  nodes: Readonly<Record<string, Pick<NodeFile, "type" | "inputs" | "each">>>;
  /** Before the names of its nodes: "", or such as "paint/2/". */
  before: string;
  outer?: Scope;
  /** The node of the outer scope that uses it. */
  user?: string;
}

interface Found {
  scope: Scope;
  name: string;
}

/** The node itself and all that it needed, of those that ran; of a batch of several nodes' pictures only the `part`. */
export function behind(graph: EditorGraph, ran: readonly string[], node: string, part = ""): Set<string> {
  const sources = new Set<string>([node]);
  for (const each of sources) {
    const found = locate(graph, each);
    const { inputs = {} } = (found && own(found.scope.nodes, found.name)) ?? {};
    for (const value of Object.values(inputs)) {
      const from = found ? sourcesOf(graph, ran, found.scope, value) : [];
      for (const source of from.includes(part) ? [part] : from) sources.add(source);
    }
  }
  return sources;
}

/** Where a node of a run stands in the file; null where it does not. */
function locate(graph: EditorGraph, ran: string): Found | null {
  let scope: Scope = { nodes: graph.nodes, before: "" };
  const parts = ran.split("/");
  for (let at = 0; at < parts.length; at++) {
    const name = parts[at] ?? "";
    const node = own(scope.nodes, name);
    if (!node) return null;
    const number = Object.keys(node.each ?? {}).length > 0 ? parts[++at] : undefined;
    if (at >= parts.length - 1) return { scope, name };
    const sub = subOf(graph.subs, node.type);
    if (!sub) return null;
    const before = `${scope.before}${name}/${number === undefined ? "" : `${number}/`}`;
    scope = { nodes: sub.nodes, before, outer: scope, user: name };
  }
  return null;
}

/** The nodes of the run that a value of a scope's node comes from. */
function sourcesOf(graph: EditorGraph, ran: readonly string[], scope: Scope, value: InputValue): string[] {
  if (isParamRef(value)) {
    const given = scope.outer && own(own(scope.outer.nodes, scope.user ?? "")?.inputs ?? {}, value.param);
    return scope.outer && given !== undefined ? sourcesOf(graph, ran, scope.outer, given) : [];
  }
  if (!isLink(value)) return [];
  const [name, socket] = splitTarget(value.from);
  const node = own(scope.nodes, name);
  if (!node) return [];
  const at = scope.before + name;
  const places = Object.keys(node.each ?? {}).length > 0 ? elementsAt(ran, at) : [at];
  const sub = subOf(graph.subs, node.type);
  if (!sub) return places;
  const output = own(sub.outputs ?? {}, socket);
  return output
    ? places.flatMap((place) =>
        sourcesOf(graph, ran, { nodes: sub.nodes, before: `${place}/`, outer: scope, user: name }, output),
      )
    : [];
}

/** "paint/1", "paint/2", ... as far as they ran. */
function elementsAt(ran: readonly string[], at: string): string[] {
  const numbers = ran
    .filter((name) => name.startsWith(`${at}/`))
    .map((name) => name.slice(at.length + 1).split("/")[0]);
  return [...new Set(numbers)].filter((number) => /^\d+$/.test(number ?? "")).map((number) => `${at}/${number}`);
}
