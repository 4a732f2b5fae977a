/** Asking for a node's help, and going from there to a workflow that shows it at work. */

import { focusItem } from "../../canvas/commands/focusItem";
import { itemKey } from "../../graph/items";
import { own } from "../../graph/record";
import { host } from "../../host";
import { editorStore, select } from "../../store/editor";
import { openDialog } from "../../store/page";
import type { Template } from "../../types";
import { openTemplate, said } from "../files/fileActions";

/** Whose help is asked for: a type of nodes, and the node on the canvas where it was asked at one. */
export interface HelpAsked {
  type: string;
  name?: string;
}

export function openHelp(type: string): void {
  openDialog("help", { type } satisfies HelpAsked);
}

/** Of a node on the canvas; false where there is none of this name. */
export function openHelpOf(name: string): boolean {
  const node = own(editorStore.getState().graph.nodes, name);
  if (node) openDialog("help", { type: node.type, name } satisfies HelpAsked);
  return node !== undefined;
}

/** Open a workflow in a tab of its own, with the node selected, and in view (`useFit`). */
export async function openAt({ graph, name }: Template, node: string): Promise<void> {
  await openTemplate(graph, name);
  select([itemKey("node", node)]);
  focusItem(itemKey("node", node));
}

/** Open a ready workflow at its first node of a type. */
export async function openTemplateAt(id: string, type: string): Promise<void> {
  await said(async () => {
    const template = (await host.templates()).find((each) => each.id === id);
    const node = Object.entries(template?.graph.nodes ?? {}).find(([, each]) => each.type === type)?.[0];
    if (template && node !== undefined) await openAt(template, node);
  });
}
