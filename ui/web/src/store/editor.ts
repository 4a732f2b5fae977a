/** The workflow being edited: the graph, its history, what is selected, where it was saved. */

import { useStore } from "zustand";
import { createStore } from "zustand/vanilla";
import { EMPTY_CATALOG, inWords, specOf } from "../graph/catalog";
import { emptyGraph } from "../graph/file/workflowFile";
import { newHistory, record, redo as redone, undo as undone, type History } from "../graph/history";
import { insideOf, pathIn, withInside, withoutLost, type Path } from "../graph/inside";
import { hasItem } from "../graph/items";
import type { Catalog, Checked, EditorGraph, Meant, Problem, Tokens, WorkflowRef } from "../types";

export interface EditorState {
  /** What is on the canvas: the workflow, or the inside of one of its sub-workflows. */
  graph: EditorGraph;
  /** The workflow. */
  whole: EditorGraph;
  /** The nodes that one has gone into; none in the workflow itself. */
  inside: Path;
  catalog: Catalog;
  /** Item keys: "n:name", "g:id", "c:id", "r:id", "e:node.socket". */
  selection: ReadonlySet<string>;
  /** The saved workflow that the graph came from. */
  workflow: WorkflowRef | null;
  isDirty: boolean;
  canUndo: boolean;
  canRedo: boolean;
  /** Of the workflow. */
  problems: Problem[];
  /** What 0, "" and "auto" will be in a run, by node and socket, as the checker last told. */
  meant: Meant;
  /** Which sizes the models of nodes with a canvas paint, as the checker last told. */
  sizes: Checked["sizes"];
  /** What text encoders make of texts, by node and socket, as the server last told. */
  tokens: Tokens["tokens"];
  draftKey: string;
  /** Grows when another workflow is opened: the canvas then shows all of it. */
  opened: number;
}

/** All that belongs to one workflow in the editor, as it is put aside while another one is edited. */
export interface Parked
  extends Pick<EditorState, "selection" | "workflow" | "problems" | "meant" | "draftKey" | "inside"> {
  history: History<EditorGraph>;
  /** The graph as it was saved last; null for none. */
  saved: EditorGraph | null;
}

const NOTHING: ReadonlySet<string> = new Set();

let history: History<EditorGraph> = newHistory(emptyGraph("untitled"));
let saved: EditorGraph | null = history.present;

export const editorStore = createStore<EditorState>(() => ({
  graph: history.present,
  whole: history.present,
  inside: [],
  catalog: EMPTY_CATALOG,
  selection: NOTHING,
  workflow: null,
  isDirty: false,
  canUndo: false,
  canRedo: false,
  problems: [],
  meant: {},
  sizes: {},
  tokens: {},
  draftKey: "",
  opened: 0,
}));

export function useEditor<T>(selector: (state: EditorState) => T): T {
  return useStore(editorStore, selector);
}

/** What a run calls a node that is on the canvas: "paint/denoise" inside of `paint`. */
export function useRunName(name: string): string {
  return useEditor(({ inside }) => (inside.length ? [...inside, name].join("/") : name));
}

/** Change the graph. `label` names the edit for people; edits in a row with one merge key are undone at once. */
export function edit(label: string, change: (graph: EditorGraph) => EditorGraph, mergeKey = ""): void {
  const { inside, graph } = editorStore.getState();
  const make = (whole: EditorGraph) => withInside(whole, inside, change(insideOf(whole, inside) ?? graph));
  put(label, make, mergeKey && [...inside, mergeKey].join("/"), inside);
}

/** Change the workflow itself, wherever one is in it. */
export function editWhole(label: string, change: (whole: EditorGraph) => EditorGraph, mergeKey?: string): void {
  put(label, change, mergeKey, []);
}

function put(label: string, change: (whole: EditorGraph) => EditorGraph, mergeKey?: string, place?: Path): void {
  const { present } = history;
  show(record(history, withoutLost(present, change(present)), label, mergeKey, place));
}

/** Where the edit was made that is taken back, it is seen too. */
export function undo(): void {
  show(undone(history), history.past.at(-1)?.place);
}

export function redo(): void {
  show(redone(history), history.future.at(-1)?.place);
}

/** Go into a node that uses a sub-workflow. */
export function enter(name: string): void {
  const { inside, whole } = editorStore.getState();
  if (insideOf(whole, [...inside, name])) goInside([...inside, name]);
}

/** Show the inside that a path leads to; without names the workflow. */
export function goInside(path: Path): void {
  show(history, path);
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
  editorStore.setState({
    selection: NOTHING,
    workflow,
    problems: [],
    meant: {},
    sizes: {},
    tokens: {},
    opened: opened + 1,
  });
  show(history, []);
}

export function park(): Parked {
  const { selection, workflow, problems, meant, draftKey, inside } = editorStore.getState();
  return {
    history,
    saved,
    selection,
    workflow,
    problems,
    meant,
    draftKey,
    inside,
  };
}

/** Go on with what was put aside, undo included. */
export function resume({ history: next, saved: kept, ...rest }: Parked): void {
  [history, saved] = [next, kept];
  editorStore.setState({ ...rest, tokens: {}, ...asShown(next, rest.inside) });
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

export function setTokens(tokens: Tokens["tokens"]): void {
  editorStore.setState({ tokens });
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

function show(next: History<EditorGraph>, place?: Path): void {
  history = next;
  const { inside, selection } = editorStore.getState();
  const shown = asShown(next, place ?? inside);
  const isHere = shown.inside === inside;
  editorStore.setState({
    ...shown,
    selection: isHere ? stillThere(selection, shown.graph) : NOTHING,
  });
}

function asShown({ present, past, future }: History<EditorGraph>, place: Path) {
  const { inside } = editorStore.getState();
  const found = pathIn(present, place);
  return {
    graph: insideOf(present, found) ?? present,
    whole: present,
    inside: found.join() === inside.join() ? inside : found,
    isDirty: present !== saved,
    canUndo: past.length > 0,
    canRedo: future.length > 0,
  };
}

function stillThere(selection: ReadonlySet<string>, graph: EditorGraph): ReadonlySet<string> {
  const kept = [...selection].filter((key) => hasItem(graph, key));
  return kept.length === selection.size ? selection : new Set(kept);
}
