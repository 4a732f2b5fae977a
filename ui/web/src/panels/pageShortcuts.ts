/** The page's keyboard shortcuts: what each does, and how its keys are called. */

import { useEffect } from "react";
import { openFind } from "../canvas/canvasUi";
import { currentNode } from "../canvas/commands/focusItem";
import { idsOf } from "../graph/items";
import { t } from "../i18n";
import { editorStore } from "../store/editor";
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

/** "Ctrl+S", or as a Mac writes it. */
export function keysText(keys: string): string {
  return IS_MAC ? keys.replace("Ctrl+", "⌘").replace("Shift+", "⇧").replace("Alt+", "⌥") : keys;
}

export function hintOf(name: ShortcutName): string {
  const { key, isShifted, isBare, isAlt }: Shortcut = SHORTCUTS[name];
  const shown = key === "Enter" ? t("panels.key_enter") : isAlt ? key.replace("Key", "") : key.toUpperCase();
  return keysText(`${isBare ? "" : isAlt ? "Alt+" : "Ctrl+"}${isShifted ? "Shift+" : ""}${shown}`);
}

/** Listens while the build view is shown and no dialog is open. */
export function usePageShortcuts(): void {
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const { view, dialog, question } = pageStore.getState();
      if (view !== "build" || dialog || question || event.defaultPrevented) return;
      const found = Object.values<Shortcut>(SHORTCUTS).find((shortcut) => matches(shortcut, event));
      if (!found) return;
      event.preventDefault();
      found.act();
    };
    window.addEventListener("keydown", onKeyDown);
    return () => window.removeEventListener("keydown", onKeyDown);
  }, []);
}

function matches(shortcut: Shortcut, event: KeyboardEvent): boolean {
  const { key, isShifted = false, isBare = false, isAlt = false } = shortcut;
  const hasCtrl = event.ctrlKey || event.metaKey;
  if (event.altKey !== isAlt) return false;
  if (isAlt && key.startsWith("Key") && isTyping(event)) return false; // on a Mac it writes a letter
  if (isAlt) return event.code === key && !hasCtrl && event.shiftKey === isShifted;
  if (isBare) return event.key === key && !hasCtrl && !isTyping(event);
  return event.key.toLowerCase() === key.toLowerCase() && hasCtrl && event.shiftKey === isShifted;
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
