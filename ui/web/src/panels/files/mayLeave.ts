/** Work that is not saved is not lost without a question. */

import { editorStore } from "../../store/editor";
import { openDialog, pageStore } from "../../store/page";

/** Whether another workflow may take the place of this one; asks where this one is not saved. */
export async function mayLeave(): Promise<boolean> {
  const { isDirty, graph } = editorStore.getState();
  if (!isDirty || Object.keys(graph.nodes).length === 0) return true;
  const before = pageStore.getState().dialog;
  const isFree = await new Promise<boolean>((resolve) => openDialog("unsaved", resolve));
  const { dialog } = pageStore.getState();
  if (!dialog || dialog.name === "unsaved") pageStore.setState({ dialog: before });
  return isFree;
}
