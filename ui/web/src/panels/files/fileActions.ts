/** Saving and opening workflows: the library, the disk, shared links. */

import { textExact } from "../../exact";
import { describe, withMovingSeeds } from "../../graph/edits";
import { emptyGraph, fromFile, toFile } from "../../graph/file/workflowFile";
import { withInsides } from "../../graph/inside";
import { ApiError, host, sentence } from "../../host";
import { t } from "../../i18n";
import { downloadText } from "../../parts/download";
import { lock } from "../../store/draftClaim";
import { goToTab, keepSoon } from "../../store/drafts";
import { editorStore, editWhole } from "../../store/editor";
import { closeDialog, go, openDialog, toast } from "../../store/page";
import { enterTab, markSavedIn, openTab, tabOf, tabStore } from "../../store/tabs";
import type { DraftEntry, EditorGraph, GraphFile, Workflow, WorkflowRef } from "../../types";
import { keepThumb } from "../library/workflowThumb";

/** What a dialog about saving is opened with: why, and who waits to hear whether it was saved. */
export interface SaveAsked {
  reason: string;
  answer: (isSaved: boolean) => void;
}

/** Save in the library under its name, or ask for one. Resolves to whether it was saved, once that is decided. */
export async function save(): Promise<boolean> {
  const { whole: graph, workflow, draftKey } = editorStore.getState();
  if (!workflow) return ask("saveAs");
  try {
    return keepSaved(await host.saveWorkflow(workflow.id, toFile(graph), workflow.version), graph, draftKey);
  } catch (error) {
    if (error instanceof ApiError && error.status === 409) return ask("conflict", sentence(error));
    if (error instanceof ApiError && error.status === 404) return ask("saveAs", sentence(error));
    fail(error);
    return false;
  }
}

function ask(dialog: "saveAs" | "conflict", reason = ""): Promise<boolean> {
  return new Promise((answer) => openDialog(dialog, { reason, answer } satisfies SaveAsked));
}

/** Save over what another tab saved: the other's work stays as the version before. False where that failed. */
export async function overwrite(): Promise<boolean> {
  const { whole: graph, workflow, draftKey } = editorStore.getState();
  if (!workflow) return false;
  try {
    const newest = await host.workflow(workflow.id);
    return keepSaved(await host.saveWorkflow(workflow.id, toFile(graph), newest.version), graph, draftKey);
  } catch (error) {
    fail(error);
    return false;
  }
}

/** Save as a new workflow. Throws with a sentence, which the dialog shows. */
export async function saveAs(name: string, folder: string): Promise<void> {
  const { whole: graph, draftKey } = editorStore.getState();
  const sent = graph.name === name ? graph : describe(graph, { name });
  editWhole(t("panels.edit_name"), () => sent, "save as");
  keepSaved(await host.createWorkflow(toFile(sent), { name, folder }), sent, draftKey);
}

/** Open a workflow of the library, or an older version of it as unsaved work. One that is open already is shown. */
export async function openWorkflow(id: string, version?: number): Promise<void> {
  await said(async () => {
    const isOpen = version === undefined && (await showOpen(id));
    if (isOpen && editorStore.getState().isDirty) return shown();
    const opened = await host.workflow(id, version);
    const current = version === undefined ? opened : await host.workflow(id);
    const ref: WorkflowRef = { id, version: current.version, name: current.name };
    const isNewest = version === undefined || version === current.version;
    const graph = named(opened.graph, opened.name);
    if (!isOpen) show(graph, ref, isNewest);
    else if (editorStore.getState().workflow?.version !== ref.version) replace(graph, ref);
    else shown();
    if (!isNewest) toast({ kind: "info", text: t("panels.old_version", { version }) });
  });
}

/** Make an older version the newest again; those in between stay. */
export async function restoreVersion(id: string, version: number): Promise<void> {
  await said(async () => {
    const [old, current] = await Promise.all([host.workflow(id, version), host.workflow(id)]);
    const saved = await host.saveWorkflow(id, old.graph, current.version);
    const graph = named(old.graph, saved.name);
    const ref = { id, version: saved.version, name: saved.name };
    if ((await showOpen(id)) && !editorStore.getState().isDirty) replace(graph, ref);
    else show(graph, ref);
    toast({ kind: "success", text: t("panels.restored", { version, now: saved.version }) });
  });
}

/** Open a draft of another day: unsaved work on top of the workflow it came from. Of one that another tab of a browser
has open, this is a copy. */
export async function openDraft({ key, name }: DraftEntry): Promise<void> {
  await said(async () => {
    if (tabOf(key)) {
      await goToTab(key);
      return shown();
    }
    const { graph, workflow_id: id, base_version: version } = await host.draft(key);
    const workflow = id && version ? { id, version, name } : null;
    const read = fromFile(graph);
    show(read, workflow, false, (await lock(key, false)) ? key : undefined);
  });
}

/** Open a graph that no workflow of the library holds. */
export async function openUnsaved(graph: GraphFile, name: string): Promise<void> {
  await said(async () => show(named(graph, name), null));
}

/** Open one of the shipped workflows: its seeds are new for each run, until somebody sets or locks them. */
export async function openTemplate(graph: GraphFile, name: string): Promise<void> {
  const { catalog } = editorStore.getState();
  const moving = (opened: EditorGraph): EditorGraph => withMovingSeeds(opened, catalog);
  await said(async () => show(withInsides(moving(named(graph, name)), moving), null));
}

export async function newWorkflow(): Promise<void> {
  show(emptyGraph(t("panels.untitled")), null);
}

/** Write the file to the disk, byte for byte as the command line does. */
export async function saveToDisk(): Promise<void> {
  const { whole: graph } = editorStore.getState();
  await said(async () => downloadText((await host.text(toFile(graph))).text, `${graph.name || "workflow"}.json`));
}

export async function exportComfy(): Promise<void> {
  const { whole: graph } = editorStore.getState();
  await said(async () => {
    const prompt = await host.exportComfy(toFile(graph));
    downloadText(`${textExact(prompt, 2)}\n`, `${graph.name || "workflow"}.comfyui.json`);
    toast({ kind: "info", text: t("panels.comfy_hint") });
  });
}

export async function duplicate(): Promise<void> {
  const { workflow } = editorStore.getState();
  if (!workflow) return openDialog("saveAs");
  await said(async () => {
    const copy = await host.duplicateWorkflow(workflow.id);
    const { graph, version, name } = await host.workflow(copy.id);
    show(named(graph, name), { id: copy.id, version, name });
    toast({ kind: "success", text: t("panels.duplicated", { name }) });
  });
}

/** Do it, and say in the page what went wrong. */
export async function said(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    fail(error);
  }
}

/** What is shown is as it is in the library, on the disk or among the templates, unless `isSaved` is false. */
function show(graph: EditorGraph, workflow: WorkflowRef | null, isSaved = true, key?: string): void {
  openTab(graph, workflow, { isSaved, key });
  shown();
}

/** Put a newer version into the tab that is shown. */
function replace(graph: EditorGraph, workflow: WorkflowRef): void {
  enterTab(editorStore.getState().draftKey, graph, workflow, true);
  shown();
}

function shown(): void {
  closeDialog();
  go("build");
}

/** Show the tab that has a workflow of the library; false where none has. */
async function showOpen(id: string): Promise<boolean> {
  const tab = tabStore.getState().tabs.find(({ workflow }) => workflow === id);
  if (tab) await goToTab(tab.key);
  return editorStore.getState().workflow?.id === id;
}

function named(graph: GraphFile, name: string): EditorGraph {
  return { ...fromFile(graph), name };
}

/** What was edited while the graph travelled is not saved yet. */
function keepSaved(saved: Workflow, sent: EditorGraph, key: string): true {
  markSavedIn(key, { id: saved.id, version: saved.version, name: saved.name }, sent);
  keepSoon(key);
  toast({ kind: "success", text: t("panels.saved", { name: saved.name }) });
  if (key === editorStore.getState().draftKey) void keepThumb(saved.id);
  return true;
}

function fail(error: unknown): void {
  toast({ kind: "error", text: sentence(error) });
}
