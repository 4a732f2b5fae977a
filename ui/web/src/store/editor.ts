/** The workflow being edited: the graph, its history, what is selected, where it was saved. */

import { useStore } from "zustand";
import { createStore } from "zustand/vanilla";
import { EMPTY_CATALOG, inWords, specOf } from "../graph/catalog";
import { emptyGraph } from "../graph/file/workflowFile";
import { newHistory, record, redo as redone, undo as undone, type History } from "../graph/history";
import { hasItem } from "../graph/items";
import type { Catalog, Checked, EditorGraph, Meant, Problem, WorkflowRef } from "../types";

export interface EditorState {
  graph: EditorGraph;
  catalog: Catalog;
  /** Item keys: "n:name", "g:id", "c:id", "r:id", "e:node.socket". */
  selection: ReadonlySet<string>;
  /** The saved workflow that the graph came from. */
  workflow: WorkflowRef | null;
  isDirty: boolean;
  canUndo: boolean;
  canRedo: boolean;
  problems: Problem[];
  /** What 0, "" and "auto" will be in a run, by node and socket, as the checker last told. */
  meant: Meant;
  /** Which sizes the models of nodes with a canvas paint, as the checker last told. */
  sizes: Checked["sizes"];
  draftKey: string;
  /** Grows when another workflow is opened: the canvas then shows all of it. */
  opened: number;
}

/** All that belongs to one workflow in the editor, as it is put aside while another one is edited. */
export interface Parked extends Pick<EditorState, "selection" | "workflow" | "problems" | "meant" | "draftKey"> {
  history: History<EditorGraph>;
  /** The graph as it was saved last; null for none. */
  saved: EditorGraph | null;
}

const NOTHING: ReadonlySet<string> = new Set();

let history: History<EditorGraph> = newHistory(emptyGraph("untitled"));
let saved: EditorGraph | null = history.present;

export const editorStore = createStore<EditorState>(() => ({
  graph: history.present,
  catalog: EMPTY_CATALOG,
  selection: NOTHING,
  workflow: null,
  isDirty: false,
  canUndo: false,
  canRedo: false,
  problems: [],
  meant: {},
  sizes: {},
  draftKey: "",
  opened: 0,
}));

export function useEditor<T>(selector: (state: EditorState) => T): T {
  return useStore(editorStore, selector);
}

/** Change the graph. `label` names the edit for people; edits in a row with one merge key are undone at once. */
export function edit(label: string, change: (graph: EditorGraph) => EditorGraph, mergeKey?: string): void {
  show(record(history, change(history.present), label, mergeKey));
}

export function undo(): void {
  show(undone(history));
}

export function redo(): void {
  show(redone(history));
}

/** What `undo` would take back, in words; "" for nothing. */
export function undoLabel(): string {
  return history.past.at(-1)?.label ?? "";
}

export function select(keys: Iterable<string>): void {
  const next = new Set(keys);
  const { selection } = editorStore.getState();
  if (next.size === selection.size && [...next].every((key) => selection.has(key))) return;
  editorStore.setState({ selection: next });
}

/** Open a graph; undo does not go behind it. Without `isSaved` a graph of no workflow counts as unsaved work. */
export function load(
  graph: EditorGraph,
  workflow: WorkflowRef | null,
  { isSaved = workflow !== null || !Object.keys(graph.nodes).length }: { isSaved?: boolean } = {},
): void {
  history = newHistory(graph);
  saved = isSaved ? graph : null;
  const { opened } = editorStore.getState();
  editorStore.setState({ selection: NOTHING, workflow, problems: [], meant: {}, sizes: {}, opened: opened + 1 });
  show(history);
}

export function park(): Parked {
  const { selection, workflow, problems, meant, draftKey } = editorStore.getState();
  return { history, saved, selection, workflow, problems, meant, draftKey };
}

/** Go on with what was put aside, undo included. */
export function resume({ history: next, saved: kept, ...rest }: Parked): void {
  [history, saved] = [next, kept];
  editorStore.setState({ ...rest, ...asShown(next) });
}

/** The graph as it was opened, laid out anew: nothing that anybody did, hence nothing to undo or to save. */
export function settle(graph: EditorGraph): void {
  if (saved === history.present) saved = graph;
  show(newHistory(graph));
}

/** The graph as it is now was saved as this workflow. */
export function markSaved(workflow: WorkflowRef): void {
  saved = history.present;
  editorStore.setState({ workflow });
  show(history);
}

export function setProblems(problems: Problem[]): void {
  editorStore.setState({ problems });
}

export function setMeant(meant: Meant, sizes: Checked["sizes"] = {}): void {
  editorStore.setState({ meant, sizes });
}

let told: Catalog = EMPTY_CATALOG;

/** The catalog as the server told it, in English, for what goes into files. */
export function toldCatalog(): Catalog {
  return told;
}

export function setCatalog(catalog: Catalog): void {
  told = catalog;
  sayCatalog();
}

/** A node type's title as the server told it; its id where nobody did. */
export function toldTitle(type: string): string {
  return specOf(told, type)?.title ?? type;
}

/** Have the catalog in the language that is set now. */
export function sayCatalog(): void {
  editorStore.setState(({ problems }) => ({ catalog: inWords(told), problems: [...problems] }));
}

export function setDraftKey(draftKey: string): void {
  editorStore.setState({ draftKey });
}

function show(next: History<EditorGraph>): void {
  history = next;
  editorStore.setState({ ...asShown(next), selection: stillThere(next.present) });
}

function asShown({ present, past, future }: History<EditorGraph>) {
  return { graph: present, isDirty: present !== saved, canUndo: past.length > 0, canRedo: future.length > 0 };
}

function stillThere(graph: EditorGraph): ReadonlySet<string> {
  const { selection } = editorStore.getState();
  const kept = [...selection].filter((key) => hasItem(graph, key));
  return kept.length === selection.size ? selection : new Set(kept);
}
