/** The canvas by keyboard: one table of keys, and what each does. */

import { useEffect, type ClipboardEvent, type KeyboardEvent } from "react";
import { moveGrouped } from "../../graph/edits";
import type { Alignment } from "../../graph/edits/align";
import { itemKey, parseItem } from "../../graph/items";
import { own } from "../../graph/record";
import { t } from "../../i18n";
import { edit, editorStore, redo, select, undo } from "../../store/editor";
import { openHelpOf } from "../../panels/help/openHelp";
import { meantBy } from "../../store/keyBindings";
import { pageStore } from "../../store/page";
import type { Point } from "../../types";
import { canvasUi, onCanvas, openPopup } from "../canvasUi";
import { alignSelected, distributeSelected } from "../commands/alignCommands";
import { alongWire, currentNode, focusNode, textField, type Direction } from "../commands/focusItem";
import { openPalette } from "../commands/freePlace";
import {
  arrange,
  collapse,
  copy,
  cut,
  duplicate,
  groupSelected,
  paste,
  remove,
  selectAll,
  sizeOf,
  toggleMode,
} from "../commands/itemCommands";
import { foldSelected, goIn, goOut } from "../commands/subCommands";
import { showAll } from "../flow/showAll";
import { targetOf } from "./pointer";

const STEP = 10;
const LONG_STEP = 50;
/** Works in fields too, where nothing is written by it. */
const HELP = "F1";
const LETTER = /^[\p{L}\p{N}]$/u;
const ARROWS: Record<string, Point> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** With Ctrl or Cmd. */
const COMMANDS: Record<string, () => void> = {
  z: undo,
  y: redo,
  Z: redo,
  a: selectAll,
  c: copy,
  x: cut,
  d: duplicate,
  m: () => toggleMode("mute"),
  b: () => toggleMode("bypass"),
  g: () => groupSelected(),
  G: () => foldSelected(),
};

/** With Ctrl or Cmd and Shift. */
const SIDES: Record<string, Alignment> = {
  ArrowLeft: "left",
  ArrowRight: "right",
  ArrowUp: "top",
  ArrowDown: "bottom",
};

/** With Shift: a letter as it is then. */
const LINES: Record<string, () => boolean> = {
  C: () => alignSelected("column"),
  R: () => alignSelected("row"),
  H: () => distributeSelected("across"),
  V: () => distributeSelected("down"),
};

/** Without Ctrl. */
const KEYS: Record<string, () => void> = {
  Delete: remove,
  Backspace: remove,
  "/": () => openPalette(),
  f: () => showAll(200),
  l: arrange,
  o: () => canvasUi.setState(({ isOutlineOpen }) => ({ isOutlineOpen: !isOutlineOpen })),
};

/** Of React's events and the window's alike. */
type Press = { target: EventTarget | null } & Pick<
  KeyboardEvent,
  | "key"
  | "code"
  | "ctrlKey"
  | "metaKey"
  | "altKey"
  | "shiftKey"
  | "defaultPrevented"
  | "preventDefault"
  | "stopPropagation"
>;
/** A press with its keys as they usually are. */
type Meant = Pick<Press, "target" | "key" | "ctrlKey" | "altKey" | "shiftKey">;

/** The canvas's handlers. Keys count also while the focus is nowhere: what had it may have been removed. */
export function useCanvasKeys() {
  useEffect(() => {
    const onWindow = (event: globalThis.KeyboardEvent) => {
      const { view, dialog, question } = pageStore.getState();
      const isNowhere = event.composedPath()[0] === document.body;
      if (isNowhere && view === "build" && !dialog && !question) onKeyDown(event);
    };
    window.addEventListener("keydown", onWindow);
    return () => window.removeEventListener("keydown", onWindow);
  }, []);
  return HANDLERS;
}

const HANDLERS = { onKeyDown, onPaste };

function onKeyDown(event: Press): void {
  const keys = meantBy(event);
  if (event.defaultPrevented || isOutside(event) || (isTyping(event.target) && keys?.key !== HELP)) return;
  const item = itemAt(event.target);
  if (isLetter(event) && startTyping(item)) return;
  if (!keys) return;
  const meant: Meant = { ...keys, target: event.target };
  const isDone = meant.ctrlKey ? command(meant) : plainKey(meant, item);
  if (!isDone) return;
  event.preventDefault();
  event.stopPropagation();
}

/** A letter or digit, where no button takes it. */
function isLetter(event: Press): boolean {
  const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey && LETTER.test(event.key);
  return isPlain && !(event.target instanceof Element && event.target.closest("button, a"));
}

/** Whoever has chosen a comment, or has just made a node with a text, and presses a letter, wants to write it there. */
function startTyping(focused: string): boolean {
  const { selection } = editorStore.getState();
  const [key = ""] = selection.size === 1 ? selection : [];
  const { fresh } = canvasUi.getState();
  const isMeant = parseItem(key)?.kind === "note" || (fresh?.node === key && fresh.selection === selection);
  if (!key || !isMeant || (focused && focused !== key)) return false;
  const field = textField(key);
  field?.focus({ preventScroll: true }); // now, so that the letter goes there
  return field !== null;
}

function command(event: Meant): boolean {
  if (event.altKey) return false;
  const side = event.shiftKey ? own(SIDES, event.key) : undefined;
  if (side) return alignSelected(side);
  const shifted = event.shiftKey ? own(COMMANDS, event.key.toUpperCase()) : undefined;
  const run = shifted ?? own(COMMANDS, event.key.toLowerCase());
  run?.();
  return run !== undefined;
}

function plainKey(event: Meant, key: string): boolean {
  const item = parseItem(key);
  const isOnButton = event.target instanceof HTMLElement && event.target.closest("button, a") !== null;
  if (event.key === "ContextMenu" || (event.key === "F10" && event.shiftKey)) return openMenuAt(event.target, key);
  if (own(ARROWS, event.key)) return arrow(event, item?.kind === "node" ? item.id : "", key);
  if (event.key === "Escape") return escape();
  if (event.key === "Tab") return tab(event, key);
  if (event.key === HELP) return openHelpOf(item?.kind === "node" ? item.id : (currentNode() ?? ""));
  if (isOnButton) return false;
  if (item && event.key === " ") return choose(key, event.shiftKey);
  if (item?.kind === "node" && event.key === "Enter" && event.shiftKey) return goIn(item.id);
  if (item?.kind === "node" && event.key === "Enter") return openSockets(event.target, key, item.id);
  if (item?.kind === "node" && event.key === ".") return fold(item.id);
  if (event.key === "F2" && (item?.kind === "node" || item?.kind === "group")) return rename(key);
  const line = event.shiftKey && !event.altKey ? own(LINES, event.key) : undefined;
  if (line) return line();
  const run = event.altKey ? undefined : own(KEYS, event.key);
  run?.();
  return run !== undefined;
}

/** Tab on the empty canvas opens the palette; on a node it goes on to the next one, as everywhere. */
function tab(event: Meant, key: string): boolean {
  const isOnCanvas =
    event.target === canvasUi.getState().box || (event.target as HTMLElement).classList.contains("react-flow");
  if (key || event.shiftKey || !isOnCanvas) return false;
  openPalette();
  return true;
}

/** Lets go of what is chosen or open; then goes out of the node that one is inside of. */
function escape(): boolean {
  const { popup, refusal } = canvasUi.getState();
  const isFree = editorStore.getState().selection.size === 0 && !popup && !refusal;
  if (isFree && editorStore.getState().inside.length > 0) {
    goOut();
    return true;
  }
  canvasUi.setState({ popup: null, refusal: null });
  select([]);
  canvasUi.getState().box?.focus({ preventScroll: true });
  return true;
}

function choose(key: string, isMore: boolean): boolean {
  const { selection } = editorStore.getState();
  const others = isMore ? [...selection].filter((other) => other !== key) : [];
  select(isMore && selection.has(key) ? others : [...others, key]);
  return true;
}

function arrow(event: Meant, node: string, key: string): boolean {
  const { graph, selection } = editorStore.getState();
  if (event.altKey) {
    const next = node ? alongWire(graph, node, event.key as Direction) : undefined;
    if (next) focusNode(next);
    return next !== undefined;
  }
  const keys = selection.size ? [...selection] : key ? [key] : [];
  const [x, y] = ARROWS[event.key] ?? [0, 0];
  const step = event.shiftKey ? LONG_STEP : STEP;
  const places = keys.flatMap((moved) => {
    const at = canvasUi.getState().flow?.getNode(moved)?.position;
    return at ? [[moved, [at.x + x * step, at.y + y * step] as Point] as const] : [];
  });
  if (places.length === 0) return false;
  edit(t("canvas.move"), (last) => moveGrouped(last, Object.fromEntries(places), sizeOf), `arrows:${keys.join()}`);
  return true;
}

function fold(name: string): boolean {
  const isFolded = editorStore.getState().graph.nodes[name]?.collapsed ?? false;
  collapse([name], !isFolded);
  return true;
}

function rename(key: string): boolean {
  canvasUi.setState({ renaming: key });
  return true;
}

function openSockets(target: EventTarget | null, key: string, node: string): boolean {
  if (!(target instanceof HTMLElement)) return false;
  select([key]);
  const rect = target.getBoundingClientRect();
  openPopup({ kind: "sockets", x: rect.left + 16, y: rect.top + 34, node });
  return true;
}

function openMenuAt(target: EventTarget | null, key: string): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (key && !editorStore.getState().selection.has(key)) select([key]);
  const rect = target.getBoundingClientRect();
  const place = key
    ? { x: rect.left + 16, y: rect.top + 34 }
    : { x: rect.left + rect.width / 2, y: rect.top + rect.height / 2 };
  openPopup({ kind: "menu", ...place, flow: onCanvas(place), target: targetOf(key, { target }) });
  return true;
}

function onPaste(event: ClipboardEvent<HTMLElement>): void {
  if (isTyping(event.target) || event.clipboardData.files.length) return;
  event.preventDefault();
  void paste({ text: event.clipboardData.getData("text/plain") });
}

/** The key of the item that an element belongs to. */
function itemAt(target: EventTarget | null): string {
  const node = target instanceof Element ? target.closest<HTMLElement>(".react-flow__node") : null;
  return node?.dataset.id ?? itemKeyIn(target);
}

/** In the outline, lines name the item they stand for. */
function itemKeyIn(target: EventTarget | null): string {
  const line = target instanceof Element ? target.closest<HTMLElement>("[data-node]") : null;
  return line?.dataset.node ? itemKey("node", line.dataset.node) : "";
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest("input, textarea, select, [contenteditable], dialog") !== null;
}

/** Popups live in the top layer but bubble through the canvas. */
function isOutside(event: Press): boolean {
  return event.target instanceof Element && event.target.closest("[popover]") !== null;
}
