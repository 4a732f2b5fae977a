/** The page's keyboard shortcuts: what each does, and how its keys are called. */

import { useEffect } from "react";
import { currentNode } from "../canvas/commands/focusItem";
import { idsOf } from "../graph/items";
import { t } from "../i18n";
import { editorStore } from "../store/editor";
import { openDialog, pageStore } from "../store/page";
import { save } from "./files/fileActions";
import { run, runTo } from "./runs/runActions";

interface Shortcut {
  key: string;
  isShifted?: boolean;
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
  shortcuts: { key: "?", isBare: true, act: () => openDialog("shortcuts") },
} satisfies Record<string, Shortcut>;

export type ShortcutName = keyof typeof SHORTCUTS;

const IS_MAC = /mac|iphone|ipad/i.test(navigator.platform);

/** "Ctrl+S", or as a Mac writes it. */
export function keysText(keys: string): string {
  return IS_MAC ? keys.replace("Ctrl+", "⌘").replace("Shift+", "⇧").replace("Alt+", "⌥") : keys;
}

export function hintOf(name: ShortcutName): string {
  const { key, isShifted, isBare }: Shortcut = SHORTCUTS[name];
  const shown = key === "Enter" ? t("panels.key_enter") : key.toUpperCase();
  return keysText(`${isBare ? "" : "Ctrl+"}${isShifted ? "Shift+" : ""}${shown}`);
}

/** Listens while the build view is shown and no dialog is open. */
export function usePageShortcuts(): void {
  useEffect(() => {
    const onKeyDown = (event: KeyboardEvent) => {
      const { view, dialog, question } = pageStore.getState();
      if (view !== "build" || dialog || question || event.defaultPrevented || event.altKey) return;
      const found = Object.values<Shortcut>(SHORTCUTS).find((shortcut) => matches(shortcut, event));
      if (!found) return;
      event.preventDefault();
      found.act();
    };
    window.addEventListener("keydown", onKeyDown);
    return () => window.removeEventListener("keydown", onKeyDown);
  }, []);
}

function matches({ key, isShifted = false, isBare = false }: Shortcut, event: KeyboardEvent): boolean {
  const hasCtrl = event.ctrlKey || event.metaKey;
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
