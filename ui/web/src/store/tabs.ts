/** The workflows that this page has open: one of them is in the editor, the others are put aside whole. */

import { useStore } from "zustand";
import { createStore } from "zustand/vanilla";
import { isEmpty } from "../graph/file/workflowFile";
import type { EditorGraph, WorkflowRef } from "../types";
import { newDraft, rememberTabs, type Tab } from "./draftClaim";
import { editorStore, load, markSaved, park, resume, setDraftKey, type Parked } from "./editor";
import { liveStore, watchRun } from "./live";

export type { Tab } from "./draftClaim";

/** What the canvas showed of a workflow. */
export interface View {
  x: number;
  y: number;
  zoom: number;
}

export const tabStore = createStore<{ tabs: readonly Tab[] }>(() => ({ tabs: [] }));

const aside = new Map<string, Parked>();
const views = new Map<string, View>();

export function useTabs(): readonly Tab[] {
  return useStore(tabStore, ({ tabs }) => tabs);
}

export function tabOf(key: string): Tab | undefined {
  return tabStore.getState().tabs.find((tab) => tab.key === key);
}

/** What the page begins with; the active one is then put into the editor. */
export function setTabs(tabs: readonly Tab[], active: string): void {
  aside.clear();
  views.clear();
  tabStore.setState({ tabs });
  setDraftKey(active);
}

/** Open a workflow in a tab of its own, behind the active one; a blank one gives its place to it. */
export function openTab(
  graph: EditorGraph,
  workflow: WorkflowRef | null,
  { isSaved, key }: { isSaved?: boolean; key?: string } = {},
): void {
  const last = editorStore.getState().draftKey;
  const isBlank = isBlankNow();
  if (isBlank && key === undefined) {
    change(last, { watched: null });
    enterTab(last, graph, workflow, isSaved);
    return;
  }
  const tab: Tab = { key: key ?? newDraft(), name: graph.name, isDirty: false, workflow: null, watched: null };
  const { tabs } = tabStore.getState();
  const at = tabs.findIndex((other) => other.key === last) + 1;
  tabStore.setState({ tabs: [...tabs.slice(0, at), tab, ...tabs.slice(at)] });
  enterTab(tab.key, graph, workflow, isSaved);
  if (isBlank) dropTab(last);
}

/** Show a tab that is in the memory of this page; false where it has to be read first. */
export function resumeTab(key: string): boolean {
  const parked = aside.get(key);
  if (!parked) return false;
  leave();
  aside.delete(key);
  const watched = tabOf(key)?.watched ?? null;
  resume(parked);
  watchRun(watched);
  remember();
  return true;
}

/** Put what was read into the editor, as the tab with this key. */
export function enterTab(key: string, graph: EditorGraph, workflow: WorkflowRef | null, isSaved?: boolean): void {
  if (editorStore.getState().draftKey !== key) leave();
  const watched = tabOf(key)?.watched ?? null;
  aside.delete(key);
  forgetViews(key);
  setDraftKey(key);
  load(graph, workflow, isSaved === undefined ? {} : { isSaved });
  watchRun(watched);
  remember();
}

/** Take a tab that is not the active one out of the list. */
export function dropTab(key: string): void {
  forget(key);
  tabStore.setState(({ tabs }) => ({ tabs: tabs.filter((tab) => tab.key !== key) }));
}

/** Put a tab where another one is. */
export function moveTab(key: string, to: number): void {
  const { tabs } = tabStore.getState();
  const moved = tabOf(key);
  const others = tabs.filter((tab) => tab !== moved);
  const at = Math.min(Math.max(to, 0), others.length);
  if (moved && tabs[at] !== moved) tabStore.setState({ tabs: [...others.slice(0, at), moved, ...others.slice(at)] });
}

/** The tab so many places behind the active one, around the end. */
export function tabBeside(step: number): Tab | undefined {
  const { tabs } = tabStore.getState();
  const at = tabs.findIndex((tab) => tab.key === editorStore.getState().draftKey);
  return tabs[(at + step + tabs.length) % tabs.length];
}

/** A tab's graph and where it was saved; null where it was not read yet. */
export function editedIn(key: string): { graph: EditorGraph; workflow: WorkflowRef | null } | null {
  const { draftKey, whole: graph, workflow } = editorStore.getState();
  if (key === draftKey) return { graph, workflow };
  const parked = aside.get(key);
  return parked ? { graph: parked.history.present, workflow: parked.workflow } : null;
}

/** A tab's graph was saved as this workflow, and may have been edited, or put aside, while that took its time. */
export function markSavedIn(key: string, workflow: WorkflowRef, sent: EditorGraph): void {
  const state = editorStore.getState();
  const parked = aside.get(key);
  if (key === state.draftKey) {
    if (state.whole === sent) markSaved(workflow);
    else editorStore.setState({ workflow });
  } else if (parked) {
    const isAll = parked.history.present === sent;
    aside.set(key, { ...parked, workflow, saved: isAll ? sent : parked.saved });
    change(key, { workflow: workflow.id, ...(isAll ? { isDirty: false } : {}) });
  }
}

/** Show a run in a tab, also where another one is in the editor by now. */
export function watchRunIn(key: string, run: string | null): void {
  if (key === editorStore.getState().draftKey) watchRun(run);
  else change(key, { watched: run });
}

/** The canvas showed this of the active tab last. */
export function keepView(view: View): void {
  const { draftKey, inside } = editorStore.getState();
  views.set(viewKey(draftKey, inside), view);
}

/** What the canvas showed of a tab, or inside of one of its nodes; undefined where it should show all. */
export function viewOf(key: string, inside: readonly string[] = []): View | undefined {
  return views.get(viewKey(key, inside));
}

function viewKey(key: string, inside: readonly string[]): string {
  return [key, ...inside].join("/");
}

function forgetViews(key: string): void {
  for (const each of views.keys()) if (each === key || each.startsWith(`${key}/`)) views.delete(each);
}

/** Put the active tab aside; returns its key. What is being typed in a field belongs to it. */
function leave(): void {
  let focused = globalThis.document?.activeElement;
  while (focused?.shadowRoot?.activeElement) focused = focused.shadowRoot.activeElement;
  if (focused?.matches("input, textarea")) (focused as HTMLElement).blur();
  const parked = park();
  aside.set(parked.draftKey, parked);
}

function isBlankNow(): boolean {
  const { whole: graph, workflow, isDirty, canUndo, canRedo } = editorStore.getState();
  return isEmpty(graph) && !workflow && !isDirty && !canUndo && !canRedo;
}

function forget(key: string): void {
  aside.delete(key);
  forgetViews(key);
}

function change(key: string, fields: Partial<Tab>): void {
  const { tabs } = tabStore.getState();
  const old = tabs.find((tab) => tab.key === key);
  const names = Object.keys(fields) as (keyof Tab)[];
  if (!old || names.every((name) => old[name] === fields[name])) return;
  tabStore.setState({ tabs: tabs.map((tab) => (tab === old ? { ...tab, ...fields } : tab)) });
}

/** A blank one is nothing to come back to. */
function remember(): void {
  const tabs = tabStore.getState().tabs.filter(({ key, isDirty }) => {
    const edited = editedIn(key);
    return isDirty || !edited || !isEmpty(edited.graph) || edited.workflow !== null;
  });
  rememberTabs(tabs, editorStore.getState().draftKey);
}

/** What the list says of the active tab. */
function note(): void {
  const { draftKey, whole: graph, isDirty, workflow } = editorStore.getState();
  change(draftKey, { name: graph.name, isDirty, workflow: workflow?.id ?? null });
}

editorStore.subscribe((state, before) => {
  if (state.draftKey === before.draftKey || state.whole !== before.whole) note(); // else the graph follows
});
liveStore.subscribe(({ watched }, before) => {
  if (watched !== before.watched) change(editorStore.getState().draftKey, { watched });
});
tabStore.subscribe(remember);
