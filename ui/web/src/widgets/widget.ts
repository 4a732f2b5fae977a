/** What every widget is given, and how names of sockets are shown. */

import { asRead } from "../exact";
import { t, word } from "../i18n";
import type { InputSpec, Json } from "../types";

export interface Change {
  /** False while the value is still moving (a slider dragged, a text typed): such changes are one step of undo. */
  commit: boolean;
}

export interface WidgetProps {
  id: string;
  spec: InputSpec;
  /** In words; the accessible name of the control. */
  label: string;
  /** undefined: no value, or several different ones; `placeholder` then says which. */
  value: Json | undefined;
  onChange: (value: Json, change: Change) => void;
  disabled: boolean;
  /** Id of the element that helps or tells the problem. */
  describedBy?: string;
  isInvalid?: boolean;
  placeholder?: string;
  /** What stands in grey for a value that stands for something else, such as "auto: 16". */
  meant?: string;
  /** The number that it then stands for. */
  own?: number;
  /** Names the seed for "a new one for each run": "node.socket" or "$param". Without it there is no such choice. */
  seedKey?: string;
  /** Words of the text that its model cannot know. */
  unknown?: readonly string[];
  /** Where the value stands in the workflow: "node.socket" or "$param"; "" and none where it stands nowhere. */
  place?: string;
}

export const SETTLED: Change = { commit: true };
export const MOVING: Change = { commit: false };

/** What the path of an uploaded picture begins with; others, such as a template's example, the server has no thumb of. */
export const UPLOADED = /^[0-9a-f]{16}-/;

export function pictureName(path: string): string {
  return path.replace(UPLOADED, "");
}

export function asText(value: Json | undefined): string {
  if (value === undefined || value === null) return "";
  return asRead(value);
}

const STAND_INS = new Set(["auto", "all", "model"]);
const MOST_CHARACTERS = 160;

/** "auto: 16" for a 0 that will be 16, "auto" where nobody knows that number yet; "" for a value that means itself. */
export function meantText(value: Json | undefined, meant: Json | undefined, isAuto = false): string {
  if (meant === undefined && isAuto && value === 0) return t("widgets.auto");
  if (meant === undefined || typeof meant === "object") return "";
  const written = asText(value);
  const isOpen = value === 0 || written === "";
  if (!isOpen && !STAND_INS.has(written)) return "";
  const text = asRead(meant);
  const short = text.length > MOST_CHARACTERS ? `${text.slice(0, MOST_CHARACTERS)}…` : text;
  return isOpen ? t("widgets.meant", { value: short }) : `${word("choice", written) ?? written}: ${short}`;
}
