/** Which nodes were changed since the run that the canvas shows: what it says of them is no longer true of them. */

import { fromFile } from "../graph/file/workflowFile";
import { usedSubs } from "../graph/edits/fold";
import { insideOf } from "../graph/inside";
import { inOrder, sourcesOf } from "../graph/order";
import { own } from "../graph/record";
import { isParamRef } from "../graph/values";
import { host } from "../host";
import type { EditorGraph, Run } from "../types";
import { useEditor } from "./editor";
import { useLive } from "./live";

const MOST = 32;
/** The workflow of each of the last runs, as this page sent or opened it. */
const ran = new Map<string, EditorGraph>();

export function rememberRan(run: string, graph: EditorGraph): void {
  const oldest = ran.size >= MOST ? ran.keys().next().value : undefined;
  if (oldest !== undefined) ran.delete(oldest);
  ran.set(run, graph);
}

/** Whether a run had all of the workflow as it is now: it would make the same again. */
export async function isAsItRan({ id, targets, overrides }: Run, now: EditorGraph): Promise<boolean> {
  if (targets) return false;
  const kept = Object.keys(overrides).length ? undefined : ran.get(id);
  const file = kept ? null : (await host.run(id)).graph;
  const before = kept ?? (file && fromFile(file));
  if (!before) return false;
  const isSame = Object.keys(before.nodes).length === Object.keys(now.nodes).length;
  return isSame && changedNodes(before, now).size === 0;
}

/** Whether the node, or what feeds it, is no longer as the watched run had it; false where that is not known. */
export function useIsChanged(node: string): boolean {
  const before = useLive(({ watched }) => (watched ? ran.get(watched) : undefined));
  return useEditor(({ graph, inside }) => {
    if (before === undefined) return false;
    const then = insideOf(before, inside);
    return !then || changed(then, graph).has(node);
  });
}

let last: { before: EditorGraph; now: EditorGraph; names: ReadonlySet<string> } | undefined;

/** Asked by every node for the same two graphs: answered once for each pair. */
function changed(before: EditorGraph, now: EditorGraph): ReadonlySet<string> {
  if (last?.before !== before || last.now !== now) last = { before, now, names: changedNodes(before, now) };
  return last.names;
}

export function changedNodes(before: EditorGraph, now: EditorGraph): ReadonlySet<string> {
  const names = new Set<string>();
  if (before === now) return names;
  for (const name of inOrder(now)) {
    const isFed = sourcesOf(now, name).some((source) => names.has(source));
    if (isFed || recipe(before, name) !== recipe(now, name)) names.add(name);
  }
  return names;
}

/** What decides what a node makes, apart from what feeds it. */
function recipe(graph: EditorGraph, name: string): string {
  const node = own(graph.nodes, name);
  if (!node) return "";
  const params = Object.values({ ...node.inputs, ...node.each }).filter(isParamRef);
  const subs = Object.entries(usedSubs(graph, [node])).map(([key, { layout: _, ...sub }]) => [key, sub]);
  const values = params.map(({ param }) => own(graph.params, param)?.default ?? null);
  return JSON.stringify([node.type, node.mode, Object.entries(node.inputs).sort(), node.each, values, subs]);
}
