import type { ComponentType } from "react";
import { spoken } from "../parts/format";
import { Words } from "../parts/Words";
import type { Count, InputSpec, Json } from "../types";
import { ChoiceField } from "./ChoiceField";
import { ListField } from "./ListField";
import { LoraField } from "./loras/LoraField";
import { ModelField } from "./ModelField";
import { MultilineField } from "./MultilineField";
import { NumberField } from "./numbers/NumberField";
import { SeedField } from "./numbers/SeedField";
import { StrengthField } from "./numbers/StrengthField";
import { MaskField } from "./pictures/MaskField";
import { AudioField, PictureField } from "./pictures/PictureField";
import { syntaxText } from "./promptSyntax";
import { SwitchField } from "./SwitchField";
import { TextField } from "./TextField";
import { TokenCount } from "./TokenCount";
import { meantText, type Change, type WidgetProps } from "./widget";

/** By the spec's widget, else by its type. A spec that neither names is fed by a wire only. */
const WIDGETS: Readonly<Record<string, ComponentType<WidgetProps>>> = {
  seed: SeedField,
  strength: StrengthField,
  multiline: MultilineField,
  json: MultilineField,
  model: ModelField,
  lora: LoraField,
  picture: PictureField,
  mask: MaskField,
  audio: AudioField,
  int: NumberField,
  float: NumberField,
  bool: SwitchField,
  choice: ChoiceField,
  string: TextField,
  "list[string]": ListField,
  "list[int]": ListField,
  "list[float]": ListField,
  "list[bool]": ListField,
};

/** These need the whole width, below their label, even where room is scarce. */
const TALL = new Set(["multiline", "json", "model", "lora", "picture", "mask", "audio"]);

/** Characters that have room in a field of a node; what is longer stands below. */
const MOST_INSIDE = 16;

interface FieldProps {
  spec: InputSpec;
  /** Unique in the page: the id of the control. */
  id: string;
  /** null: the spec's default. undefined with a `placeholder`: several values, say. */
  value: Json | undefined;
  onChange: (value: Json, change: Change) => void;
  disabled?: boolean;
  /** Small, label and control in one line: for nodes. */
  compact?: boolean;
  /** Instead of the spec's name. */
  label?: string;
  placeholder?: string;
  /** What the value will be in a run, if it stands for something else. */
  meant?: Json;
  /** What is wrong with the value, as a sentence. */
  problem?: string;
  /** Lets the seed be new for each run: "node.socket" or "$param"; see `seeds.ts`. */
  seedKey?: string;
  /** Where the value stands in the workflow: "node.socket" or "$param". */
  place?: string;
  /** What text encoders make of it, of a text that some read. */
  tokens?: readonly Count[];
}

/** One input drawn by its spec: label, control, help, problem. */
export function Field(props: FieldProps) {
  const { spec, id, value, onChange, disabled = false, compact = false, placeholder, problem, seedKey, place } = props;
  const tokens = shownTokens(props);
  const unknown = tokens?.[0]?.unknown;
  const syntax = tokens && typeof value === "string" ? syntaxText(value) : "";
  const Widget = widgetOf(spec);
  if (!Widget) return null;
  const label = props.label ?? spoken(spec.name);
  const shown = value ?? (placeholder === undefined ? spec.default : undefined);
  const meant = meantText(shown, props.meant, spec.auto);
  const isBelow = meant.length > MOST_INSIDE && Widget !== MultilineField;
  const isShort = compact ? !TALL.has(spec.widget) : spec.type === "bool";
  return (
    <div className={`ll-field ${compact ? "ll-field-compact" : ""} ${isShort ? "ll-field-row" : ""}`}>
      <label htmlFor={id} className="ll-field-label" title={compact ? spec.help || undefined : undefined}>
        {label}
        {spec.required && !compact && <span aria-hidden="true"> *</span>}
      </label>
      <Widget
        id={id}
        spec={spec}
        label={label}
        value={shown}
        onChange={onChange}
        disabled={disabled}
        describedBy={
          [problem || spec.help ? `${id}-help` : "", tokens ? `${id}-tokens` : "", syntax ? `${id}-syntax` : ""]
            .filter(Boolean)
            .join(" ") || undefined
        }
        isInvalid={Boolean(problem) && !unknown?.length}
        placeholder={placeholder}
        meant={isBelow ? undefined : meant || undefined}
        seedKey={seedKey}
        place={place}
        unknown={unknown}
        own={meant && typeof props.meant === "number" ? props.meant : undefined}
      />
      {tokens && <TokenCount id={`${id}-tokens`} counts={tokens} compact={compact} />}
      {syntax && (
        <p id={`${id}-syntax`} className="ll-field-said">
          {syntax}
        </p>
      )}
      {isBelow && <p className="ll-field-meant">{meant}</p>}
      {(problem || spec.help) && (
        <p id={`${id}-help`} className={problem ? "ll-field-problem" : compact ? "ll-hidden" : "ll-field-help"}>
          <Words text={problem || spec.help} />
        </p>
      )}
    </div>
  );
}

/** Nothing is told of an empty text. */
function shownTokens({ tokens, value }: FieldProps): readonly Count[] | undefined {
  return typeof value === "string" && value ? tokens : undefined;
}

/** Whether an input has a control of its own, besides its wire. */
export function hasWidget(spec: InputSpec): boolean {
  return widgetOf(spec) !== undefined;
}

function widgetOf({ widget, type }: InputSpec): ComponentType<WidgetProps> | undefined {
  return Object.hasOwn(WIDGETS, widget) ? WIDGETS[widget] : Object.hasOwn(WIDGETS, type) ? WIDGETS[type] : undefined;
}
