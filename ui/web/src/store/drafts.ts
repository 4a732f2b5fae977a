/** Keeps the workflows that are open: 800 ms after an edit in this browser and at the server, until both have it. */

import { emptyGraph, fromFile, isEmpty, toFile } from "../graph/file/workflowFile";
import { ApiError, host, sentence } from "../host";
import { t } from "../i18n";
import type { Draft, EditorGraph, GraphFile, Start, WorkflowRef } from "../types";
import { claimDrafts, newDraft, unlock } from "./draftClaim";
import { dropCopy, readCopies, writeCopy, type DraftCopy } from "./draftCopies";
import { editorStore, type EditorState } from "./editor";
import { pageStore, toast } from "./page";
import { dropTab, editedIn, enterTab, openTab, resumeTab, setTabs, tabOf, tabStore } from "./tabs";

const DELAY_MS = 800;
/** A server that did not answer is asked again: the live connection may have noticed nothing. */
const AGAIN_MS = 3000;

let timer: ReturnType<typeof setTimeout> | undefined;
/** Keys of what the server does not have yet. */
const unkept = new Set<string>();

/** Open what was being edited: in this tab of the browser, else in this browser, else by this user anywhere. */
export async function openDrafts({ me: { user }, drafts, newest }: Start): Promise<void> {
  const left = readCopies(user).map((copy) => copy.key);
  const known = drafts.map((draft) => draft.key);
  const { tabs, active, source } = await claimDrafts(user, left, known);
  setTabs(tabs, active);
  unkept.clear();
  for (const { key } of tabs) if (left.includes(key)) unkept.add(key);
  if (source === null) return;
  try {
    await read(source, active, source === newest?.key ? newest : undefined);
  } catch (error) {
    tellUnreadable(error);
    openTab(emptyGraph(t("panels.untitled")), null, { isSaved: true, key: newDraft() });
  }
}

/** Show one of the open workflows; one that was not shown since the page was loaded is read first. */
export async function goToTab(key: string): Promise<void> {
  if (editorStore.getState().draftKey === key || resumeTab(key)) return;
  try {
    await read(key);
  } catch (error) {
    tellUnreadable(error);
    if (!(error instanceof ApiError && error.status === 0)) dropTab(key);
  }
}

/** Show the tab that watches a run; false where none does. */
export async function goToTabOf(run: string): Promise<boolean> {
  const tab = tabStore.getState().tabs.find(({ watched }) => watched === run);
  if (tab) await goToTab(tab.key);
  return tab !== undefined && editorStore.getState().draftKey === tab.key;
}

/** Close an open workflow. One with unsaved work stays a draft; of any other nothing is left. */
export async function closeTab(key: string): Promise<void> {
  const { tabs } = tabStore.getState();
  const at = tabs.findIndex((tab) => tab.key === key);
  if (key === editorStore.getState().draftKey) {
    const next = tabs[at + 1] ?? tabs[at - 1];
    if (next) await goToTab(next.key);
    else openTab(emptyGraph(t("panels.untitled")), null, { isSaved: true, key: newDraft() });
    if (key === editorStore.getState().draftKey) return; // the other one could not be read
  }
  const isDirty = tabs[at]?.isDirty ?? false;
  if (isDirty && unkept.has(key)) await send(key);
  unkept.delete(key);
  dropTab(key);
  if (!isDirty) await forget(key);
  unlock(key);
}

/** Keep every edit from now on; what is returned ends that. */
export function keepDrafts(): () => void {
  const unsubscribe = editorStore.subscribe((state, before) => {
    if (!isEdited(state, before)) return;
    unkept.add(state.draftKey);
    keepLater(DELAY_MS);
  });
  const leave = (): void => unkept.forEach(keepHere);
  window.addEventListener("pagehide", leave);
  document.addEventListener("visibilitychange", leave);
  return () => {
    clearTimeout(timer);
    unsubscribe();
    window.removeEventListener("pagehide", leave);
    document.removeEventListener("visibilitychange", leave);
  };
}

/** Send what the server does not have yet; called again when it answers again. */
export async function keep(): Promise<void> {
  clearTimeout(timer);
  for (const key of [...unkept]) await send(key);
}

/** What the server should know of a tab has changed. */
export function keepSoon(key: string): void {
  unkept.add(key);
  keepLater(DELAY_MS);
}

function keepLater(ms: number): void {
  clearTimeout(timer);
  timer = setTimeout(() => void keep(), ms);
}

/** Whether the same tab has another graph now, and not a blank one. */
function isEdited(state: EditorState, before: EditorState): boolean {
  if (state.draftKey !== before.draftKey || state.opened !== before.opened) return false;
  if (state.whole === before.whole && state.workflow === before.workflow) return false;
  return state.isDirty || state.workflow !== null || !isEmpty(state.whole);
}

/** Where the server does not have it afterwards, this browser has. */
async function send(key: string): Promise<void> {
  const sent = kept(key);
  if (!sent) return;
  keepHere(key);
  const { workflow } = sent;
  const draft = { graph: sent.file, workflow_id: workflow?.id ?? null, base_version: workflow?.version ?? null };
  try {
    await host.putDraft(key, draft);
  } catch (error) {
    if (error instanceof ApiError && error.status === 0) keepLater(AGAIN_MS);
    else if (error instanceof ApiError && error.status !== 401) {
      // Refused: saying so once is all that can be done.
      toast({ kind: "error", text: t("frame.draft_refused", { reason: sentence(error) }) });
    }
    return;
  }
  const now = editedIn(key);
  if (now && (now.graph !== sent.graph || now.workflow !== workflow)) return;
  unkept.delete(key);
  dropCopy(key);
}

interface Kept {
  file: GraphFile;
  /** null where the tab was not read yet. */
  graph: EditorGraph | null;
  workflow: WorkflowRef | null;
}

function kept(key: string): Kept | null {
  const edited = editedIn(key);
  if (edited) return { ...edited, file: toFile(edited.graph) };
  const copy = copyOf(key);
  return copy ? { file: copy.graph, graph: null, workflow: copy.workflow } : null;
}

function keepHere(key: string): void {
  const edited = kept(key);
  if (!edited?.graph) return;
  writeCopy({ key, user: userNow(), graph: edited.file, workflow: edited.workflow, time: Date.now() });
}

function copyOf(key: string): DraftCopy | undefined {
  return readCopies(userNow()).find((copy) => copy.key === key);
}

function userNow(): string {
  return pageStore.getState().me?.user ?? "";
}

/** Put a draft into the editor as the tab with a key. */
async function read(source: string, key = source, told?: Draft): Promise<void> {
  const copy = copyOf(source);
  if (copy) {
    enterTab(key, fromFile(copy.graph), copy.workflow, false);
    unkept.add(key);
    return;
  }
  const draft = told ?? (await host.draft(source));
  const graph = fromFile(draft.graph);
  const { workflow_id: id, base_version: version } = draft;
  const workflow: WorkflowRef | null = id && version ? { id, version, name: graph.name } : null;
  const wasClean = source === key && tabOf(key)?.isDirty === false; // such as a template that nobody changed
  const isSaved = workflow ? await isSavedAs(workflow, draft.graph) : wasClean;
  if (!tabOf(key)) return; // closed meanwhile
  enterTab(key, graph, workflow, isSaved);
  unkept.delete(key); // it came from there
}

async function isSavedAs(workflow: WorkflowRef, graph: unknown): Promise<boolean> {
  try {
    const saved = await host.workflow(workflow.id, workflow.version);
    return JSON.stringify(toFile(fromFile(saved.graph))) === JSON.stringify(graph);
  } catch {
    return false;
  }
}

async function forget(key: string): Promise<void> {
  dropCopy(key);
  try {
    await host.deleteDraft(key);
  } catch {
    // It is among the drafts then, and can be deleted there.
  }
}

function tellUnreadable(error: unknown): void {
  toast({ kind: "error", text: t("frame.draft_unreadable", { reason: sentence(error) }) });
}
