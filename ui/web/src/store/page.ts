/** The page around the views: which one is shown, toasts, language, theme, the open dialog. */

import { useStore } from "zustand";
import { createStore } from "zustand/vanilla";
import { fromFile } from "../graph/file/workflowFile";
import { host, sentence } from "../host";
import { bestLanguage, LANGUAGES, setTexts, type Language } from "../i18n";
import type { EditorGraph, GraphFile, Me, WorkflowRef } from "../types";
import { goInside, sayCatalog } from "./editor";
import { openTab } from "./tabs";

export type View = "build" | "simple" | "gallery" | "models";
export type Theme = "light" | "dark";

export interface Toast {
  id: number;
  kind: "info" | "error" | "success";
  text: string;
  /** A run that it tells of. */
  run?: string;
  /** Of the toasts about one thing only the newest is shown. */
  about?: string;
  /** Buttons; each closes it. */
  actions?: readonly { label: string; act: () => void }[];
  /** It stays until it is dismissed. */
  isLasting?: boolean;
}

/** An open dialog by name, with what it was opened for. The names are those of `panels/Dialogs.tsx`. */
export interface DialogState {
  name: string;
  payload?: unknown;
}

export interface Question {
  text: string;
  /** What the button that agrees says; without it, yes. */
  yes?: string;
  answer: (yes: boolean) => void;
}

export type Startup = { state: "loading" } | { state: "ready" } | { state: "failed"; message: string };

export interface PageState {
  startup: Startup;
  view: View;
  /** Grows when the page itself goes to a view, rather than people to its tab. */
  numGoes: number;
  /** What the view was opened for; each view knows its own kinds. */
  payload: unknown;
  toasts: Toast[];
  language: Language;
  theme: Theme;
  dialog: DialogState | null;
  question: Question | null;
  me: Me | null;
}

const LANGUAGE_KEY = "loom.language";
const TOAST_MS = { info: 6000, success: 6000, error: 15_000 };
const MAX_TOASTS = 3;

export const pageStore = createStore<PageState>(() => ({
  startup: { state: "loading" },
  view: "build",
  numGoes: 0,
  payload: undefined,
  toasts: [],
  language: "en",
  theme: "light",
  dialog: null,
  question: null,
  me: null,
}));

export function usePage<T>(selector: (state: PageState) => T): T {
  return useStore(pageStore, selector);
}

let numToasts = 0;

/** Show a toast; the same one twice is shown once. Returns its id. */
export function toast(shown: Omit<Toast, "id">): number {
  const same = pageStore.getState().toasts.find((old) => old.text === shown.text && old.run === shown.run);
  if (same) return same.id;
  const id = ++numToasts;
  if (shown.about) dismissAbout(shown.about);
  pageStore.setState(({ toasts }) => ({ toasts: [...toasts.slice(1 - MAX_TOASTS), { ...shown, id }] }));
  if (!shown.isLasting) setTimeout(() => dismissToast(id), shown.actions ? TOAST_MS.error : TOAST_MS[shown.kind]);
  return id;
}

export function dismissToast(id: number): void {
  pageStore.setState(({ toasts }) => ({ toasts: toasts.filter((shown) => shown.id !== id) }));
}

/** What was said of this thing is over, but for what is said of these runs. */
export function dismissAbout(about: string, except: readonly string[] = []): void {
  const isOver = (shown: Toast): boolean => shown.about === about && !except.includes(shown.run ?? "");
  pageStore.setState(({ toasts }) => ({ toasts: toasts.filter((shown) => !isOver(shown)) }));
}

/** Show a view; `mount.tsx` selects its tab in Gradio. */
export function go(view: View, payload?: unknown): void {
  pageStore.setState(({ numGoes }) => ({ view, payload, numGoes: numGoes + 1 }));
}

export function openDialog(name: string, payload?: unknown): void {
  pageStore.setState({ dialog: { name, payload } });
}

export function closeDialog(): void {
  pageStore.setState({ dialog: null });
}

/** Ask a yes-or-no question in the page; an older unanswered one counts as no. */
export function confirm(text: string, yes?: string): Promise<boolean> {
  pageStore.getState().question?.answer(false);
  return new Promise((resolve) => {
    const answer = (yes: boolean): void => {
      pageStore.setState({ question: null });
      resolve(yes);
    };
    pageStore.setState({ question: { text, yes, answer } });
  });
}

export function setTheme(theme: Theme): void {
  pageStore.setState({ theme });
}

export function setMe(me: Me): void {
  pageStore.setState({ me });
}

/** Choose a language; the choice is remembered in this browser. */
export async function setLanguage(language: Language): Promise<void> {
  if (!(await showLanguage(language))) return;
  try {
    localStorage.setItem(LANGUAGE_KEY, language);
  } catch {
    // A browser that keeps nothing: the choice holds for this page.
  }
}

/** The remembered language, else the browser's. */
export async function startLanguage(): Promise<void> {
  let remembered: string | null = null;
  try {
    remembered = localStorage.getItem(LANGUAGE_KEY);
  } catch {
    // As above.
  }
  const isKnown = remembered !== null && Object.hasOwn(LANGUAGES, remembered);
  await showLanguage(isKnown ? (remembered as Language) : bestLanguage(navigator.languages));
}

async function showLanguage(language: Language): Promise<boolean> {
  try {
    setTexts(language, language === "en" ? undefined : await host.texts(language));
    sayCatalog();
    pageStore.setState({ language });
    return true;
  } catch (error) {
    toast({ kind: "error", text: sentence(error) });
    return false;
  }
}

/** Open a workflow in the editor and show it. Throws where the graph is no workflow. */
export function openGraph(graph: GraphFile | EditorGraph, name: string, workflow: WorkflowRef | null): void {
  const opened = "via" in graph ? graph : fromFile(graph);
  openTab(name && name !== opened.name ? { ...opened, name } : opened, workflow);
  go("build");
}

pageStore.subscribe(({ view }, before) => {
  if (view !== before.view && view === "simple") goInside([]); // its form is the workflow's
});
