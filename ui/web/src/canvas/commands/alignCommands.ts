/** Commands that line up what is selected, with their keys. */

import { align, distribute } from "../../graph/edits";
import type { Alignment, Direction } from "../../graph/edits/align";
import { t } from "../../i18n";
import { edit, editorStore } from "../../store/editor";
import { say } from "../canvasUi";
import { sizeOf } from "./itemCommands";

export const ALIGN_KEYS: Record<Alignment, string> = {
  left: "Ctrl+Shift+←",
  right: "Ctrl+Shift+→",
  top: "Ctrl+Shift+↑",
  bottom: "Ctrl+Shift+↓",
  column: "Shift+C",
  row: "Shift+R",
};
export const GAP_KEYS: Record<Direction, string> = { across: "Shift+H", down: "Shift+V" };

/** Keys of the selected things that have a place of their own. */
export function alignable(): string[] {
  return [...editorStore.getState().selection].filter((key) => /^[ngcr]:/.test(key));
}

/** False where there is nothing to line up. */
export function alignSelected(how: Alignment): boolean {
  const keys = alignable();
  if (keys.length < 2) return false;
  edit(t(`canvas.align_${how}`), (graph) => align(graph, keys, how, sizeOf));
  say(t(`canvas.align_${how}`));
  return true;
}

export function distributeSelected(how: Direction): boolean {
  const keys = alignable();
  if (keys.length < 3) return false;
  edit(t(`canvas.gaps_${how}`), (graph) => distribute(graph, keys, how, sizeOf));
  say(t(`canvas.gaps_${how}`));
  return true;
}
