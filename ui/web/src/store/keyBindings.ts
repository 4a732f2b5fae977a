/** Keys that people chose in place of the usual ones. What listens knows only the usual ones: a press becomes theirs. */

import { own } from "../graph/record";
import type { TextKey } from "../i18n";
import { changeSettings, settingsStore } from "./settings";

/** The keys that can be changed, with what they do. Signs come without Shift, since keyboards differ. */
export const BINDINGS = {
  "Ctrl+Enter": "panels.run",
  "Ctrl+Shift+Enter": "panels.run_selected",
  "Ctrl+S": "panels.save",
  "Ctrl+Shift+S": "panels.save_as",
  "Ctrl+O": "panels.open",
  "Ctrl+F": "canvas.find",
  "Alt+N": "panels.new",
  "Alt+W": "panels.close",
  "Alt+PageDown": "settings.next_tab",
  "Alt+PageUp": "settings.last_tab",
  "Alt+Shift+PageDown": "settings.tab_on",
  "Alt+Shift+PageUp": "settings.tab_back",
  "?": "panels.shortcuts",
  "/": "panels.key_palette",
  "Ctrl+Z": "panels.undo",
  "Ctrl+Y": "panels.redo",
  "Ctrl+D": "panels.key_duplicate",
  "Ctrl+A": "panels.key_all",
  "Ctrl+G": "panels.key_group",
  "Ctrl+Shift+G": "panels.key_sub_fold",
  "Ctrl+M": "panels.key_mute",
  "Ctrl+B": "panels.key_bypass",
  Delete: "panels.key_delete",
  F1: "help.open",
  F2: "panels.rename",
  ".": "panels.key_fold",
  F: "panels.key_fit",
  L: "panels.arrange",
  O: "panels.key_outline",
  "Shift+C": "settings.align_column",
  "Shift+R": "settings.align_row",
  "Shift+H": "settings.gaps_across",
  "Shift+V": "settings.gaps_down",
} satisfies Record<string, TextKey>;

export type Usual = keyof typeof BINDINGS;
export const ALL_USUAL = Object.keys(BINDINGS) as Usual[];

type Press = Pick<KeyboardEvent, "key" | "code" | "ctrlKey" | "metaKey" | "altKey" | "shiftKey">;
type Meant = Pick<Press, "key" | "code" | "ctrlKey" | "altKey" | "shiftKey">;

/** Moving, choosing and the clipboard are the same everywhere; the rest browsers take before any page. */
const FIXED =
  /^(Ctrl\+)?(Alt\+)?(Shift\+)?(Tab|Escape|Space|Enter|Arrow\w+|ContextMenu)$|^Shift\+F10$|^Backspace$|^Ctrl\+(Shift\+)?[CXVNTWZ]$|^F(5|11|12)$|^Alt\+F4$/;
const MODIFIERS: readonly string[] = ["Control", "Meta", "Alt", "Shift", "AltGraph", "Dead", "Unidentified"];

/** "Ctrl+Shift+G"; "" for a modifier alone. */
export function combination({ key, code, ctrlKey, metaKey, altKey, shiftKey }: Press): string {
  if (MODIFIERS.includes(key)) return "";
  const isSign = key.length === 1 && key !== " " && key.toLowerCase() === key.toUpperCase();
  const letter = altKey ? /^Key([A-Z])$/.exec(code)?.[1] : undefined; // what Alt writes depends on the keyboard
  const name = letter ?? (key === " " ? "Space" : key.length === 1 ? key.toUpperCase() : key);
  const held = [(ctrlKey || metaKey) && "Ctrl+", altKey && "Alt+", shiftKey && !isSign && "Shift+"];
  return held.filter(Boolean).join("") + name;
}

/** The keys of what usually has these. */
export function chosenFor(usual: string): string {
  return own(settingsStore.getState().keys, usual) ?? usual;
}

/** The press as it would usually be; null where its keys were taken from what they usually do. */
export function meantBy(press: Press): Meant | null {
  const { key, code, altKey, shiftKey } = press;
  const { keys } = settingsStore.getState();
  const pressed = combination(press);
  const usual = Object.keys(keys).find((each) => keys[each] === pressed);
  if (usual !== undefined) return pressOf(usual);
  return own(keys, pressed) === undefined
    ? { key, code, ctrlKey: press.ctrlKey || press.metaKey, altKey, shiftKey }
    : null;
}

export type Refusal = { kind: "fixed" } | { kind: "taken"; by: Usual };

/** Why these keys cannot be given to what usually has `usual`; null where they can. */
export function refusalOf(usual: Usual, keys: string): Refusal | null {
  if (keys !== usual && FIXED.test(keys)) return { kind: "fixed" };
  const by = ALL_USUAL.find((other) => other !== usual && chosenFor(other) === keys);
  return by ? { kind: "taken", by } : null;
}

export function chooseKeys(usual: Usual, keys: string): void {
  const { [usual]: _, ...others } = settingsStore.getState().keys;
  changeSettings({ keys: keys === usual ? others : { ...others, [usual]: keys } });
}

function pressOf(keys: string): Meant {
  const name = keys === "+" ? "+" : (/[^+]+$/.exec(keys)?.[0] ?? "");
  const [ctrlKey, altKey, shiftKey] = ["Ctrl+", "Alt+", "Shift+"].map((held) => keys.includes(held)) as [
    boolean,
    boolean,
    boolean,
  ];
  const isLetter = /^[A-Z]$/.test(name);
  return {
    key: isLetter && !shiftKey ? name.toLowerCase() : name,
    code: isLetter ? `Key${name}` : name,
    ctrlKey,
    altKey,
    shiftKey,
  };
}
