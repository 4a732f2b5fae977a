/** The page's keyboard shortcuts: what each does, and how its keys are called. */

import { useEffect } from "react";
import { openFind } from "../canvas/canvasUi";
import { currentNode } from "../canvas/commands/focusItem";
import { idsOf } from "../graph/items";
import { own } from "../graph/record";
import { t, type TextKey } from "../i18n";
import { editorStore } from "../store/editor";
import { chosenFor, meantBy } from "../store/keyBindings";
import { openDialog, pageStore } from "../store/page";
import { newWorkflow, save } from "./files/fileActions";
import { close, shift, step } from "./files/tabActions";
import { run, runTo } from "./runs/runActions";

interface Shortcut {
  /** With Alt the physical key: what it writes then depends on the keyboard. */
  key: string;
  isShifted?: boolean;
  /** With Alt in place of Ctrl: for what browsers keep to themselves with Ctrl. */
  isAlt?: boolean;
  /** Without Ctrl; only where nothing is being typed. */
  isBare?: boolean;
  act: () => void;
}

const SHORTCUTS = {
  run: { key: "Enter", act: () => void run() },
  runSelected: { key: "Enter", isShifted: true, act: runSelected },
  save: { key: "s", act: () => void save() },
  saveAs: { key: "s", isShifted: true, act: () => openDialog("saveAs") },
  open: { key: "o", act: () => openDialog("library") },
  find: { key: "f", act: openFind },
  new: { key: "KeyN", isAlt: true, act: () => void newWorkflow() },
  close: { key: "KeyW", isAlt: true, act: () => void close() },
  nextTab: { key: "PageDown", isAlt: true, act: () => step(1) },
  lastTab: { key: "PageUp", isAlt: true, act: () => step(-1) },
  moveOn: { key: "PageDown", isAlt: true, isShifted: true, act: () => shift(1) },
  moveBack: { key: "PageUp", isAlt: true, isShifted: true, act: () => shift(-1) },
  shortcuts: { key: "?", isBare: true, act: () => openDialog("shortcuts") },
} satisfies Record<string, Shortcut>;

export type ShortcutName = keyof typeof SHORTCUTS;

const IS_MAC = /mac|iphone|ipad/i.test(navigator.platform);

/** What is shown for keys that usually are these: "Ctrl+S", or as a Mac writes it. */
export function keysText(usual: string): string {
  return keysShown(chosenFor(usual));
}

/** What stands on keys in the page's language. */
const NAMED: Readonly<Record<string, TextKey>> = {
  Ctrl: "panels.key_named_ctrl",
  Shift: "panels.key_named_shift",
  Enter: "panels.key_named_enter",
  Delete: "panels.key_named_del",
  PageUp: "panels.key_named_page_up",
  PageDown: "panels.key_named_page_down",
};

/** Keys in words. */
export function keysShown(keys: string): string {
  const held = IS_MAC ? keys.replace("Ctrl+", "⌘").replace("Shift+", "⇧").replace("Alt+", "⌥") : keys;
  return held.replace(/[A-Z]\w+/g, (name) => {
    const named = own(NAMED, name);
    return named ? t(named) : name;
  });
}

export function hintOf(name: ShortcutName): string {
  const { key, isShifted, isBare, isAlt }: Shortcut = SHORTCUTS[name];
  const shown = key.length === 1 ? key.toUpperCase() : key.replace("Key", "");
  return keysText(`${isBare ? "" : isAlt ? "Alt+" : "Ctrl+"}${isShifted ? "Shift+" : ""}${shown}`);
}

/** Listens while the build view is shown and no dialog is open. */
export function usePageShortcuts(): void {
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const { view, dialog, question } = pageStore.getState();
      if (view !== "build" || dialog || question || event.defaultPrevented) return;
      const meant = meantBy(event);
      const isWritten = !event.ctrlKey && !event.metaKey && event.key.length === 1; // on a Mac also with Alt
      if (!meant || (isWritten && isTyping(event))) return;
      const found = Object.values<Shortcut>(SHORTCUTS).find((shortcut) => matches(shortcut, meant));
      if (!found) return;
      event.preventDefault();
      found.act();
    };
    window.addEventListener("keydown", onKeyDown);
    return () => window.removeEventListener("keydown", onKeyDown);
  }, []);
}

type Meant = NonNullable<ReturnType<typeof meantBy>>;

function matches(shortcut: Shortcut, { key, code, ctrlKey, altKey, shiftKey }: Meant): boolean {
  const { isShifted = false, isBare = false, isAlt = false } = shortcut;
  if (altKey !== isAlt) return false;
  if (isAlt) return code === shortcut.key && !ctrlKey && shiftKey === isShifted;
  if (isBare) return key === shortcut.key && !ctrlKey;
  return key.toLowerCase() === shortcut.key.toLowerCase() && ctrlKey && shiftKey === isShifted;
}

/** The first of the path, because outside of the shadow root the target is its host. */
function isTyping(event: KeyboardEvent): boolean {
  const target = event.composedPath()[0];
  return target instanceof HTMLElement && (target.matches("input, select, textarea") || target.isContentEditable);
}

function runSelected(): void {
  const selected = idsOf(editorStore.getState().selection, "node");
  const nodes = selected.length ? selected : [currentNode()].filter((name) => name !== undefined);
  if (nodes.length) void runTo(...nodes);
  else void run();
}
