/** Commands on LoRAs: one more behind another. */

import { nodeSpec } from "../../graph/catalog";
import { addBehind } from "../../graph/edits";
import { GAP_Y } from "../../graph/edits/arrange";
import { itemKey } from "../../graph/items";
import { loraSockets } from "../../graph/loras";
import { freshName, nameFrom } from "../../graph/names";
import { has, own } from "../../graph/record";
import { t } from "../../i18n";
import { edit, editorStore, toldTitle } from "../../store/editor";
import { say } from "../canvasUi";
import { showNew } from "./focusItem";
import { below } from "./freePlace";
import { sizeOf } from "./itemCommands";

/** Whether a node puts a LoRA on a model, so that another can come behind it. */
export function takesLora(name: string): boolean {
  const { graph, catalog } = editorStore.getState();
  return loraSockets(nodeSpec(graph, catalog, name)) !== null;
}

/** Put another LoRA behind a node's, on the way to all that took its model. */
export function addLora(node: string): void {
  const { graph, catalog } = editorStore.getState();
  const [spec, there] = [nodeSpec(graph, catalog, node), own(graph.nodes, node)];
  const sockets = loraSockets(spec);
  if (!spec || !there || !sockets) return;
  const name = freshName(nameFrom(toldTitle(there.type)), (taken) => has(graph.nodes, taken));
  const at = below([there.at[0], there.at[1] + sizeOf(node)[1] + GAP_Y]);
  edit(t("canvas.add_lora"), (last) =>
    addBehind(last, { node, spec, name, at, takes: sockets.model, gives: sockets.gives }),
  );
  showNew(itemKey("node", name));
  say(t("canvas.added", { node: spec.title }));
}
