/** What an input's spec says beside its help, in few words: whether it must be given, and what it may be. */

import { asRead, isExact } from "../../exact";
import { t, word } from "../../i18n";
import type { InputSpec, Json } from "../../types";
import { meantText } from "../../widgets/widget";

/** More choices than that are counted. */
const MOST_CHOICES = 12;
/** A longer text would be all that one sees. */
const MOST_CHARACTERS = 60;

/** `meant` is what the value on the canvas stands for, where it stands for something else. */
export function socketFacts(input: InputSpec, meant?: Json): string[] {
  return [givenText(input), ownText(input, meant), rangeText(input), choicesText(input)].filter(Boolean);
}

function givenText({ required, default: value }: InputSpec): string {
  if (required) return t("help.required");
  if (value === null) return t("help.optional");
  const text = typeof value === "boolean" ? t(value ? "help.yes" : "help.no") : asRead(value);
  const shown = word("choice", text) ?? (text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS)}…` : text);
  return shown ? t("help.default", { value: shown }) : t("help.empty");
}

/** The number, or the word, that a stand-in has for this node's model. */
function ownText({ default: value }: InputSpec, meant: Json | undefined): string {
  return meantText(value, meant) && t("help.own", { value: asRead(meant) });
}

/** Limits that only tell what a computer can count say nothing. */
function rangeText({ type, min, max }: InputSpec): string {
  if (type !== "int" && type !== "float") return "";
  const [least, most] = [isExact(min) ? min : null, isExact(max) ? max : null];
  if (least !== null && most !== null) return t("widgets.between", { min: least, max: most });
  if (least !== null) return t("widgets.at_least", { min: least });
  return most !== null ? t("widgets.at_most", { max: most }) : "";
}

function choicesText({ choices }: InputSpec): string {
  if (choices.length === 0) return "";
  if (choices.length > MOST_CHOICES) return t("help.num_choices", { n: choices.length });
  return t("help.choices", { choices: choices.map((choice) => word("choice", choice) ?? choice).join(", ") });
}
