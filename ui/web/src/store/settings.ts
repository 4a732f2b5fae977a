/** What people set for themselves in this browser: theme, keys, sizes, notifications. The language is the page's own. */

import { useStore } from "zustand";
import { createStore } from "zustand/vanilla";

export type ThemeChoice = "system" | "light" | "dark";

export interface Settings {
  theme: ThemeChoice;
  /** Tell of ended runs by the browser while the tab is hidden. */
  notifies: boolean;
  /** Chosen keys by the usual ones. */
  keys: Readonly<Record<string, string>>;
  /** In pixels, of a new canvas; 0 is the model's own. */
  width: number;
  height: number;
}

const KEY = "loom.settings";
const THEMES: readonly string[] = ["system", "light", "dark"] satisfies ThemeChoice[];
/** The longest side that a canvas takes. */
export const MOST_PIXELS = 16384;
const USUAL: Settings = { theme: "system", notifies: false, keys: {}, width: 0, height: 0 };

export const settingsStore = createStore<Settings>(() => remembered());

export function useSettings<T>(selector: (state: Settings) => T): T {
  return useStore(settingsStore, selector);
}

/** Change some of them; remembered where the browser keeps anything. */
export function changeSettings(change: Partial<Settings>): void {
  settingsStore.setState(change);
  try {
    localStorage.setItem(KEY, JSON.stringify(settingsStore.getState()));
  } catch {
    // A browser that keeps nothing: the choice holds for this page.
  }
}

/** As they were kept; what is malformed is as usual. */
export function remembered(): Settings {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(KEY) ?? "null");
    if (typeof found !== "object" || found === null) return USUAL;
    const { theme, notifies, keys, width, height } = found as Record<string, unknown>;
    return {
      theme: THEMES.includes(theme as string) ? (theme as ThemeChoice) : USUAL.theme,
      notifies: notifies === true,
      keys: typeof keys === "object" && keys !== null ? textsOf(keys) : USUAL.keys,
      width: sideOf(width),
      height: sideOf(height),
    };
  } catch {
    return USUAL;
  }
}

/** Inputs of a new canvas; what is left to the model is left out. */
export function newSize(): Partial<Pick<Settings, "width" | "height">> {
  const { width, height } = settingsStore.getState();
  return { ...(width > 0 && { width }), ...(height > 0 && { height }) };
}

/** A side as it can be kept: whole, and no longer than a canvas takes. */
export function sideOf(found: unknown): number {
  return typeof found === "number" && found > 0 ? Math.min(Math.round(found), MOST_PIXELS) : 0;
}

function textsOf(found: object): Record<string, string> {
  return Object.fromEntries(Object.entries(found).filter(([, value]) => typeof value === "string" && value !== ""));
}
