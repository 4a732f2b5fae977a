/** What people write in prompts of other tools and no text encoder here knows: it is read as the characters that it is. */

import { t } from "../i18n";

export interface ForeignSyntax {
  /** Weights and brackets, as they stand in the text. */
  weights: readonly string[];
  /** `<lora:name:0.8>`: a node does that. */
  loras: readonly string[];
  /** `{red|blue}` and `__colour__`: a node does that too. */
  choices: readonly string[];
}

const LORA = /<(?:lora|lyco|hypernet):[^<>\n]+>/gi;
/** `(word:1.2)`, `((word))`, `[word]`, `word+++` has another meaning in plain texts and is none. */
const WEIGHT = /\([^()\n]*:\s*-?\d*\.?\d+\s*\)|\(\([^()\n]+\)\)|\[[^[\]\n]+\]/g;
const CHOICE = /\{[^{}\n]*\|[^{}\n]*\}|__[A-Za-z0-9]+(?:[/_-][A-Za-z0-9]+)*__/g;
/** A list or an object of JSON, as prompts with a layout have: what is in it is no weight. */
const JSON_PART = /[[{]\s*(?:[[{"\d-])[^]*[\]}]/g;
/** Of each kind so many are named. */
const MOST = 2;
const MOST_CHARACTERS = 30;

export function foreignSyntax(text: string): ForeignSyntax {
  const plain = text.replace(JSON_PART, " ");
  const found = (pattern: RegExp, within: string) => [...new Set(within.match(pattern) ?? [])];
  return {
    weights: found(WEIGHT, plain.replace(LORA, " ")),
    loras: found(LORA, plain),
    choices: found(CHOICE, plain),
  };
}

/** One quiet line about it; "" where there is nothing to say. */
export function syntaxText(text: string): string {
  const { weights, loras, choices } = foreignSyntax(text);
  const all = [...named(weights), ...named(loras), ...named(choices)];
  if (all.length === 0) return "";
  return [
    t("widgets.plain_syntax", { what: all.join(", ") }),
    loras.length ? t("widgets.lora_syntax") : "",
    choices.length ? t("widgets.choice_syntax") : "",
  ]
    .filter(Boolean)
    .join(" ");
}

function named(found: readonly string[]): string[] {
  const short = (part: string) => (part.length > MOST_CHARACTERS ? `${part.slice(0, MOST_CHARACTERS)}…` : part);
  return found.slice(0, MOST).map(short);
}
