/** Commands on sub-workflows: fold, unfold, publish to the palette, take from there, and for-each. */

import { nodeSpec, titleOf } from "../../graph/catalog";
import { fold, setEach, unfold } from "../../graph/edits";
import { usedSubs, withSubs } from "../../graph/edits/fold";
import { fromFile, toFile } from "../../graph/file/workflowFile";
import { idsOf, itemKey } from "../../graph/items";
import { freshName, nameFrom } from "../../graph/names";
import { has } from "../../graph/record";
import { isSub } from "../../graph/subs";
import { host, sentence } from "../../host";
import { t } from "../../i18n";
import { edit, editorStore, enter, goInside, select } from "../../store/editor";
import { toast } from "../../store/page";
import type { EachList, Point } from "../../types";
import { canvasUi, say } from "../canvasUi";
import { focusItem, showNew } from "./focusItem";

/** The folder of the user's library whose workflows are parts: each is one node with its sub-workflow. */
export const PARTS = "parts";

/** Fold nodes, the selected ones where none are named, into one. */
export function foldSelected(names: readonly string[] = idsOf(editorStore.getState().selection, "node")): void {
  let name = "";
  edit(t("canvas.sub_fold"), (graph) => {
    const folded = fold(graph, editorStore.getState().catalog, names);
    name = folded?.name ?? "";
    return folded?.graph ?? graph;
  });
  if (!name) return;
  showNew(itemKey("node", name));
  say(t("canvas.sub_folded", { n: names.length }));
}

export function unfoldNode(name: string): void {
  let names: string[] = [];
  edit(t("canvas.sub_unfold"), (graph) => {
    const unfolded = unfold(graph, name);
    names = unfolded?.names ?? [];
    return unfolded?.graph ?? graph;
  });
  if (!names.length) return;
  const keys = names.map((each) => itemKey("node", each));
  select(keys);
  if (keys[0]) focusItem(keys[0]);
  say(t("canvas.sub_unfolded", { n: names.length }));
}

/** Show the inside of a node that uses a sub-workflow. Resolves to whether it does. */
export function goIn(name: string): boolean {
  const { graph, catalog } = editorStore.getState();
  if (!isSub(graph.nodes[name]?.type ?? "")) return false;
  const title = titleOf(graph, catalog, name);
  enter(name);
  canvasUi.getState().box?.focus({ preventScroll: true });
  say(t("canvas.sub_entered", { name: title }));
  return true;
}

/** From the inside of a node back to it. */
export function goOut(): void {
  const { inside } = editorStore.getState();
  const name = inside.at(-1);
  if (name === undefined) return;
  goInside(inside.slice(0, -1));
  select([itemKey("node", name)]);
  focusItem(itemKey("node", name));
}

export function changeEach(name: string, socket: string, list: EachList | null): void {
  edit(t("canvas.each"), (graph) => setEach(graph, name, socket, list));
}

/** Keep a node's sub-workflow in the user's library, so that every workflow's palette has it. */
export async function publish(name: string): Promise<void> {
  const { graph, catalog } = editorStore.getState();
  const node = graph.nodes[name];
  const spec = nodeSpec(graph, catalog, name);
  if (!node || !spec) return;
  const title = titleOf(graph, catalog, name);
  const { each: _, ...single } = node;
  const part = {
    ...fromFile({ format: 1, name: title, nodes: {} }),
    description: spec.help,
    nodes: { [name]: { ...single, title, inputs: {} } },
    subs: usedSubs(graph, [node]),
  };
  try {
    await host.createWorkflow(toFile(part), { name: title, folder: PARTS });
    toast({ kind: "success", text: t("canvas.sub_published", { name: title }) });
  } catch (error) {
    toast({ kind: "error", text: sentence(error) });
  }
}

/** Put a part of the library on the canvas; its sub-workflow is copied into the file. */
export async function putPart(id: string, at: Point): Promise<void> {
  try {
    const file = fromFile((await host.workflow(id)).graph);
    const [found] = Object.entries(file.nodes).filter(([, node]) => isSub(node.type));
    if (!found) throw new Error(t("canvas.sub_none"));
    let name = "";
    edit(t("canvas.add_node", { node: found[1].title || found[0] }), (last) => {
      const { graph, typeOf } = withSubs(last, file.subs);
      name = freshName(nameFrom(found[1].title || found[0]), (taken) => has(graph.nodes, taken));
      return { ...graph, nodes: { ...graph.nodes, [name]: { ...found[1], type: typeOf(found[1].type), at } } };
    });
    select([itemKey("node", name)]);
    focusItem(itemKey("node", name));
  } catch (error) {
    toast({ kind: "error", text: sentence(error) });
  }
}
