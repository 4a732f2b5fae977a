/** Commands on what is selected: remove, copy, paste, mode, fold, colour, group, arrange. */

import { specFor } from "../../graph/catalog";
import {
  addGroup,
  addNote,
  arrange as arranged,
  arrangeGrouped,
  growGroups,
  paste as pasted,
  removeItems,
  setCollapsed,
  setColor,
  setMembers,
  setMode,
  setTitle,
  withMembers,
} from "../../graph/edits";
import { NODE_WIDTH } from "../../graph/edits/arrange";
import { membersOf } from "../../graph/edits/members";
import { copy as copied, type Clip } from "../../graph/file/clip";
import { putClip, takeClip } from "../../graph/file/clipboard";
import { freeSpot, type Box } from "../../graph/freeSpot";
import { idsOf, itemKey } from "../../graph/items";
import { freshName } from "../../graph/names";
import { has } from "../../graph/record";
import { specIn, SUB } from "../../graph/subs";
import { t } from "../../i18n";
import { edit, editorStore, select } from "../../store/editor";
import { toast } from "../../store/page";
import type { EditorGraph, Mode, Point } from "../../types";
import { canvasUi, middle, onCanvas, openPopup, say, underPointer, type Target } from "../canvasUi";
import { estimate } from "../flow/handleEstimate";
import { readableRoom, showStart } from "../flow/showAll";
import { focusItem } from "./focusItem";

const PASTE_OFFSET = 32;
const GROUP_MARGIN = 24;
const GROUP_HEAD = 44;

/** What a command acts on: the selection. */
function chosen(): string[] {
  return [...editorStore.getState().selection];
}

/** The selection, and what the groups in it hold. */
function withHeld(): string[] {
  const { graph } = editorStore.getState();
  const groups = graph.groups.filter(({ id }) => chosen().includes(itemKey("group", id)));
  return [...new Set([...chosen(), ...groups.flatMap((group) => membersOf(graph, group, sizeOf))])];
}

export function remove(keys: readonly string[] = chosen()): void {
  if (keys.length === 0) return;
  const { whole, catalog } = editorStore.getState();
  edit(t("canvas.remove"), (graph) => removeItems(graph, keys));
  const { subs } = editorStore.getState().whole;
  const lost = Object.keys(whole.subs).filter((key) => !has(subs, key));
  const titles = lost.map((key) => specIn(whole.subs, catalog, SUB + key)?.title ?? key).join(", ");
  if (titles) toast({ kind: "info", text: t("canvas.sub_lost", { name: titles }) });
  select([]);
  say(t("canvas.removed", { n: keys.length }));
  canvasUi.getState().box?.focus({ preventScroll: true });
}

/** Copy what is selected to the system's clipboard; false where there is nothing. */
export function copy(): boolean {
  const clip = copied(editorStore.getState().graph, withHeld());
  if (!clip) return false;
  void putClip(clip);
  say(t("canvas.copied", { n: chosen().length }));
  return true;
}

export function cut(): void {
  const keys = withHeld();
  if (copy()) remove(keys);
}

/** Paste at a place on the canvas, else where the mouse is, and over nothing; `text` is what a paste event brought. */
export async function paste({ at, text }: { at?: Point; text?: string } = {}): Promise<void> {
  const clip = await takeClip(text);
  if (clip) put(t("canvas.paste"), (graph) => pasted(graph, clip, roomFor(graph, clip, at ?? underPointer())));
  else toast({ kind: "info", text: t("canvas.nothing_to_paste") });
}

export function duplicate(): void {
  const { graph } = editorStore.getState();
  const clip = copied(graph, withHeld());
  if (!clip) return;
  const [left, top] = cornerOf(clip);
  put(t("canvas.duplicate"), (last) =>
    pasted(last, clip, roomFor(last, clip, [left + PASTE_OFFSET, top + PASTE_OFFSET])),
  );
}

/** The nearest place where a clip covers neither nodes nor comments. */
function roomFor(graph: EditorGraph, clip: Clip, at: Point): Point {
  const [left, top] = cornerOf(clip);
  const boxes = boxesOf(clip.graph, estimated).map(([x, y, ...size]): Box => [x - left, y - top, ...size]);
  return freeSpot(at, boxes, boxesOf(graph, sizeOf));
}

function boxesOf(graph: EditorGraph, size: (name: string, graph: EditorGraph) => Point): Box[] {
  const nodes = Object.entries(graph.nodes).map(([name, node]): Box => [...node.at, ...size(name, graph)]);
  return [...nodes, ...graph.notes.map((note) => note.rect)];
}

/** Of a node that is not drawn. */
function estimated(name: string, graph: EditorGraph): Point {
  const node = graph.nodes[name];
  const width = node?.size?.[0] ?? NODE_WIDTH;
  if (!node) return [width, 0];
  const { catalog } = editorStore.getState();
  return [width, node.size?.[1] ?? estimate(node, specFor(graph, catalog, node), width, "").initialHeight];
}

function cornerOf({ graph }: Clip): Point {
  const frames = [...graph.groups, ...graph.notes].map(({ rect }) => rect);
  const places = [...Object.values(graph.nodes).map((node) => node.at), ...frames];
  return [Math.min(...places.map((place) => place[0])), Math.min(...places.map((place) => place[1]))];
}

function put(label: string, change: (graph: EditorGraph) => { graph: EditorGraph; keys: string[] }): void {
  let keys: string[] = [];
  edit(label, (graph) => {
    const result = change(graph);
    keys = result.keys;
    return result.graph;
  });
  select(keys);
  if (keys[0]) focusItem(keys[0]);
  say(t("canvas.pasted", { n: keys.length }));
}

/** Give nodes a mode; nodes that all have it already run again. */
export function toggleMode(mode: Mode, names: readonly string[] = idsOf(chosen(), "node")): void {
  const { graph } = editorStore.getState();
  const isSet = names.length > 0 && names.every((name) => graph.nodes[name]?.mode === mode);
  edit(t(mode === "mute" ? "canvas.mute" : "canvas.bypass"), (last) => setMode(last, names, isSet ? "run" : mode));
}

export function applyMode(mode: Mode, names: readonly string[]): void {
  edit(t("canvas.mode"), (graph) => setMode(graph, names, mode));
}

export function collapse(names: readonly string[], isFolded: boolean): void {
  edit(t(isFolded ? "canvas.fold" : "canvas.unfold"), (graph) => setCollapsed(graph, names, isFolded));
}

export function retitle(name: string, title: string): void {
  edit(t("canvas.rename"), (graph) => setTitle(graph, name, title));
}

export function paint(keys: readonly string[], color: string): void {
  edit(t("canvas.color"), (graph) => setColor(graph, keys, color));
}

export function selectAll(): void {
  const { graph } = editorStore.getState();
  const keys = [
    ...Object.keys(graph.nodes).map((name) => itemKey("node", name)),
    ...graph.groups.map((group) => itemKey("group", group.id)),
    ...graph.notes.map((note) => itemKey("note", note.id)),
    ...Object.keys(graph.reroutes).map((id) => itemKey("reroute", id)),
  ];
  select(keys);
  say(t("canvas.selected", { n: keys.length }));
}

/** Size of a node as it is drawn. */
export function sizeOf(name: string): Point {
  const node = canvasUi.getState().flow?.getNode(itemKey("node", name));
  return [node?.measured?.width ?? node?.width ?? NODE_WIDTH, node?.measured?.height ?? node?.initialHeight ?? 160];
}

/** Order the selected nodes, or all of them where fewer than two are selected. */
export function arrange(): void {
  const names = idsOf(chosen(), "node");
  const only = names.length > 1 ? names : undefined;
  edit(t("canvas.arrange"), (graph) =>
    only
      ? growGroups(arranged(withMembers(graph, sizeOf), { only, sizeOf, room: readableRoom() }), sizeOf)
      : arrangeGrouped(graph, sizeOf, readableRoom()),
  );
  if (!only) requestAnimationFrame(() => showStart(200));
}

/** Draw a group around the selected nodes, which it holds from then on with comments and reroutes, or an empty one. */
export function groupSelected(at: Point = onCanvas(middle())): void {
  const { graph } = editorStore.getState();
  const names = idsOf(chosen(), "node");
  const id = freshName("group", (taken) => graph.groups.some((group) => group.id === taken));
  const boxes = names.map((name) => ({ at: graph.nodes[name]?.at ?? at, size: sizeOf(name) }));
  const left = Math.min(...boxes.map((box) => box.at[0])) - GROUP_MARGIN;
  const top = Math.min(...boxes.map((box) => box.at[1])) - GROUP_HEAD - GROUP_MARGIN / 2;
  const right = Math.max(...boxes.map((box) => box.at[0] + box.size[0])) + GROUP_MARGIN;
  const bottom = Math.max(...boxes.map((box) => box.at[1] + box.size[1])) + GROUP_MARGIN;
  const rect: [number, number, number, number] = names.length
    ? [left, top, right - left, bottom - top]
    : [...at, 360, 240];
  edit(t("canvas.group"), (last) => {
    const added = addGroup(withMembers(last, sizeOf), { id, title: t("canvas.group"), color: "", rect, members: [] });
    return growGroups(setMembers(added, names.length ? chosen() : [], id), sizeOf);
  });
  select([itemKey("group", id)]);
  canvasUi.setState({ renaming: itemKey("group", id) });
}

export function addComment(at: Point = onCanvas(middle())): void {
  const { graph } = editorStore.getState();
  const id = freshName("note", (taken) => graph.notes.some((note) => note.id === taken));
  edit(t("canvas.comment"), (last) => addNote(last, { id, text: "", color: "yellow", rect: [...at, 220, 120] }));
  select([itemKey("note", id)]);
  canvasUi.setState({ renaming: itemKey("note", id) });
}

/** Open the menu of a thing below a button. */
export function openMenuBeside(button: HTMLElement, target: Target): void {
  const rect = button.getBoundingClientRect();
  const place = { x: rect.left, y: rect.bottom };
  openPopup({ kind: "menu", ...place, flow: onCanvas(place), target });
}
