/** Keeps the workflow being edited: 800 ms after an edit in this browser and at the server, until both have it. */

import { fromFile, toFile } from "../graph/file/workflowFile";
import { ApiError, host, sentence } from "../host";
import { t } from "../i18n";
import type { DraftEntry, WorkflowRef } from "../types";
import { claimDraft, newDraft } from "./draftClaim";
import { dropCopy, readCopies, writeCopy, type DraftCopy } from "./draftCopies";
import { editorStore, load, setDraftKey, type EditorState } from "./editor";
import { pageStore, toast } from "./page";

const DELAY_MS = 800;
/** A server that did not answer is asked again: the live connection may have noticed nothing. */
const AGAIN_MS = 3000;

let timer: ReturnType<typeof setTimeout> | undefined;
let isKept = true;

/** Open what was being edited: in this tab, else in this browser, else by this user anywhere. */
export async function openDraft(user: string): Promise<void> {
  const copies = readCopies(user);
  const drafts = await host.drafts();
  const newest = [...drafts].sort((a, b) => b.updated - a.updated).map((draft) => draft.key);
  const left = copies.map((copy) => copy.key);
  const { key, source } = await claimDraft(left, newest);
  setDraftKey(key);
  const copy = copies.find((found) => found.key === source);
  isKept = copy === undefined;
  try {
    if (source) await restore(source, copy, drafts);
  } catch (error) {
    toast({ kind: "error", text: t("frame.draft_unreadable", { reason: sentence(error) }) });
    setDraftKey(await newDraft());
  }
}

/** Keep every edit from now on; what is returned ends that. */
export function keepDrafts(): () => void {
  const unsubscribe = editorStore.subscribe((state, before) => {
    if (state.opened !== before.opened && before.isDirty) void leaveDraft(before);
    if (state.graph === before.graph && state.workflow === before.workflow) return;
    isKept = false;
    keepLater(DELAY_MS);
  });
  const leave = (): void => {
    if (!isKept) keepHere(editorStore.getState());
  };
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
  if (isKept) return;
  clearTimeout(timer);
  const state = editorStore.getState();
  if ((await send(state)) && editorStore.getState().graph === state.graph) isKept = true;
}

function keepLater(ms: number): void {
  clearTimeout(timer);
  timer = setTimeout(() => void keep(), ms);
}

/** Another workflow takes the place of unsaved work: that stays a draft of its own. */
async function leaveDraft(left: EditorState): Promise<void> {
  const isSent = isKept;
  setDraftKey(await newDraft());
  if (!isSent) await send(left);
}

/** False where the server does not have it; this browser then has. */
async function send(state: EditorState): Promise<boolean> {
  const { draftKey, graph, workflow } = state;
  keepHere(state);
  const draft = { graph: toFile(graph), workflow_id: workflow?.id ?? null, base_version: workflow?.version ?? null };
  try {
    await host.putDraft(draftKey, draft);
  } catch (error) {
    if (error instanceof ApiError && error.status === 0) keepLater(AGAIN_MS);
    else if (error instanceof ApiError && error.status !== 401) {
      // Refused: saying so once is all that can be done.
      toast({ kind: "error", text: t("frame.draft_refused", { reason: sentence(error) }) });
    }
    return false;
  }
  if (editorStore.getState().graph === graph || editorStore.getState().draftKey !== draftKey) dropCopy(draftKey);
  return true;
}

function keepHere({ draftKey, graph, workflow }: EditorState): void {
  const user = pageStore.getState().me?.user ?? "";
  writeCopy({ key: draftKey, user, graph: toFile(graph), workflow, time: Date.now() });
}

async function restore(key: string, copy: DraftCopy | undefined, drafts: DraftEntry[]): Promise<void> {
  if (copy) {
    load(fromFile(copy.graph), copy.workflow, { isSaved: false });
    return;
  }
  const entry = drafts.find((draft) => draft.key === key);
  if (!entry) return;
  const draft = await host.draft(key);
  const graph = fromFile(draft.graph);
  const { workflow_id: id, base_version: version } = draft;
  const workflow: WorkflowRef | null = id && version ? { id, version, name: graph.name } : null;
  load(graph, workflow, { isSaved: workflow !== null && (await isSavedAs(workflow, draft.graph)) });
}

async function isSavedAs(workflow: WorkflowRef, graph: unknown): Promise<boolean> {
  try {
    const saved = await host.workflow(workflow.id, workflow.version);
    return JSON.stringify(toFile(fromFile(saved.graph))) === JSON.stringify(graph);
  } catch {
    return false;
  }
}
