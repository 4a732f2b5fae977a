/** The page's texts: `t("key", { hole: value })` in the language that is set. English is in the bundle. */

import canvas from "./texts/en/canvas.json";
import core from "./texts/en/core.json";
import gallery from "./texts/en/gallery.json";
import help from "./texts/en/help.json";
import material from "./texts/en/material.json";
import models from "./texts/en/models.json";
import panels from "./texts/en/panels.json";
import settings from "./texts/en/settings.json";
import simple from "./texts/en/simple.json";
import widgets from "./texts/en/widgets.json";
import { setSentences } from "./worded";
import ownSentences from "./texts/sentences/en.json";

const english = {
  ...core,
  ...canvas,
  ...widgets,
  ...panels,
  ...simple,
  ...settings,
  ...gallery,
  ...help,
  ...material,
  ...models,
};

export type TextKey = keyof typeof english;
export type Texts = Readonly<Record<string, string>>;
/** What a language's file holds: the page's own texts with the words for names, and the server's sentences. */
export interface Translation {
  texts: Texts;
  sentences: Texts;
}
export type Language = "en" | "de";
export type Values = Readonly<Record<string, string | number>>;

export const LANGUAGES: Readonly<Record<Language, string>> = { en: "English", de: "Deutsch" };

let current: Language = "en";
let texts: Texts = english;

/** The language in use, for numbers and dates. */
export function language(): Language {
  return current;
}

/** Use a language and its texts. Called by the page's store, which also draws everything anew. */
export function setTexts(
  chosen: Language,
  translated: Translation = { texts: english, sentences: ownSentences },
): void {
  current = chosen;
  texts = translated.texts;
  setSentences(translated.sentences, (name) => word("socket", name) ?? word("type", name));
}

/** The first of the wanted languages (such as `navigator.languages`) that there are texts for. */
export function bestLanguage(wanted: readonly string[]): Language {
  const found = wanted.map((tag) => tag.slice(0, 2).toLowerCase()).find((tag) => Object.hasOwn(LANGUAGES, tag));
  return (found as Language | undefined) ?? "en";
}

/** A text with its {holes} filled. */
export function t(key: TextKey, values: Values = {}): string {
  const text = texts[key] ?? english[key];
  return text.replace(/\{(\w+)\}/g, (hole, name: string) => String(Object.hasOwn(values, name) ? values[name] : hole));
}

/** The word for a name that nodes use: of a socket, a value type, a category, a choice; undefined where there is none. */
export function word(kind: "socket" | "type" | "category" | "choice", name: string): string | undefined {
  const key = `${kind}.${name}`;
  return Object.hasOwn(texts, key) ? texts[key] : undefined;
}

/** "one" or "other": the form of a word beside a number, the same in all our languages. */
export function plural(count: number): "one" | "other" {
  return count === 1 ? "one" : "other";
}

setTexts("en");
