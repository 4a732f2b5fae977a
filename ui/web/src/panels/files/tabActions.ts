/** What is done with the workflows that are open: by the bar above the canvas, by keys, from the File menu. */

import { isEmpty } from "../../graph/file/workflowFile";
import { closeTab, goToTab } from "../../store/drafts";
import { editorStore } from "../../store/editor";
import { openDialog, pageStore } from "../../store/page";
import { moveTab, tabBeside, tabOf, tabStore } from "../../store/tabs";

/** Close a workflow; asks, with the workflow in sight, where not all of it is saved. */
export async function close(key = editorStore.getState().draftKey): Promise<void> {
  if (tabOf(key)?.isDirty) {
    await goToTab(key);
    if (!isEmpty(editorStore.getState().whole) && !(await mayClose())) return;
  }
  await closeTab(key);
}

/** Go so many tabs further, around the end. */
export function step(by: number): void {
  const next = tabBeside(by);
  if (next) void goToTab(next.key);
}

/** Put the tab that is shown so many places further. */
export function shift(by: number): void {
  const { draftKey } = editorStore.getState();
  const at = tabStore.getState().tabs.findIndex((tab) => tab.key === draftKey);
  moveTab(draftKey, at + by);
}

async function mayClose(): Promise<boolean> {
  const before = pageStore.getState().dialog;
  const isFree = await new Promise<boolean>((resolve) => openDialog("unsaved", resolve));
  const { dialog } = pageStore.getState();
  if (!dialog || dialog.name === "unsaved") pageStore.setState({ dialog: before });
  return isFree;
}
