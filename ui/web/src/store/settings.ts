/** What people set for themselves in this browser: theme, keys, notifications. The language is the page's own. */

import { useStore } from "zustand";
import { createStore } from "zustand/vanilla";

export type ThemeChoice = "system" | "light" | "dark";

export interface Settings {
  theme: ThemeChoice;
  /** Tell of ended runs by the browser while the tab is hidden. */
  notifies: boolean;
  /** Chosen keys by the usual ones. */
  keys: Readonly<Record<string, string>>;
}

const KEY = "loom.settings";
const THEMES: readonly string[] = ["system", "light", "dark"] satisfies ThemeChoice[];
const USUAL: Settings = { theme: "system", notifies: false, keys: {} };

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
    const { theme, notifies, keys } = found as Record<string, unknown>;
    return {
      theme: THEMES.includes(theme as string) ? (theme as ThemeChoice) : USUAL.theme,
      notifies: notifies === true,
      keys: typeof keys === "object" && keys !== null ? textsOf(keys) : USUAL.keys,
    };
  } catch {
    return USUAL;
  }
}

function textsOf(found: object): Record<string, string> {
  return Object.fromEntries(Object.entries(found).filter(([, value]) => typeof value === "string" && value !== ""));
}
