import { useState } from "react";
import { asRead } from "../exact";
import { t } from "../i18n";
import { Button } from "../parts/Button";
import { IconButton } from "../parts/IconButton";
import type { InputSpec, Json } from "../types";
import { NumberField } from "./numbers/NumberField";
import { MultilineField } from "./MultilineField";
import { TextField } from "./TextField";
import { MOVING, SETTLED, type WidgetProps } from "./widget";

/** From here on a list is written as a text, one element a line. */
const MOST = 40;

/** A list of plain values: in a node in one line, with commas between; elsewhere a field for each element. */
export function ListField(props: WidgetProps) {
  const list = props.value === null || props.value === undefined ? [] : props.value;
  const isOfNode = props.place !== undefined && !props.place.startsWith("$");
  if (isOfNode || !Array.isArray(list)) return <OneLine {...props} />;
  return list.length > MOST ? <Lines {...props} list={list} /> : <Elements {...props} list={list} />;
}

function OneLine(props: WidgetProps) {
  return (
    <TextField
      {...props}
      value={listText(props.value)}
      placeholder={props.placeholder ?? (isTexts(props.spec) ? '"a", "b"' : "1, 0.5")}
      onChange={(text, change) => props.onChange(listOf(String(text)), change)}
    />
  );
}

/** A field for each element; a line that is pasted into one becomes as many as it has lines. */
function Elements({
  id,
  spec,
  label,
  list,
  onChange,
  disabled,
  describedBy,
  isInvalid,
}: WidgetProps & { list: Json[] }) {
  const [added, setAdded] = useState(-1);
  const shown = list.length ? list : [isTexts(spec) ? "" : 0];
  const Field = isTexts(spec) ? MultilineField : NumberField;
  const element: InputSpec = { ...spec, type: spec.type.slice("list[".length, -1), default: null };
  const put = (index: number, value: Json, isOver: boolean): void => {
    const lines = typeof value === "string" && isOver ? value.split("\n").filter((line) => line.trim()) : [value];
    onChange(
      [...shown.slice(0, index), ...(lines.length ? lines : [""]), ...shown.slice(index + 1)],
      isOver ? SETTLED : MOVING,
    );
  };
  const add = (): void => {
    setAdded(shown.length);
    onChange([...shown, isTexts(spec) ? "" : (shown.at(-1) ?? 0)], SETTLED);
  };
  return (
    <div className="ll-list" role="group" aria-label={label}>
      <ol>
        {shown.map((value, index) => (
          <li key={index} ref={(line) => void (index === added && focusIn(line, () => setAdded(-1)))}>
            <label className="ll-hidden" htmlFor={index ? `${id}-${index}` : id}>
              {t("widgets.list_element", { name: label, n: index + 1 })}
            </label>
            <Field
              id={index ? `${id}-${index}` : id}
              spec={element}
              label={t("widgets.list_element", { name: label, n: index + 1 })}
              value={value}
              disabled={disabled}
              describedBy={describedBy}
              isInvalid={isInvalid}
              onChange={(next, { commit }) => put(index, next, commit)}
            />
            <IconButton
              icon="trash"
              label={t("widgets.list_remove", { n: index + 1 })}
              disabled={disabled || shown.length === 1}
              onClick={() => onChange(shown.toSpliced(index, 1), SETTLED)}
            />
          </li>
        ))}
      </ol>
      <Button kind="ghost" icon="plus" disabled={disabled} onClick={add}>
        {t("widgets.list_add")}
      </Button>
    </div>
  );
}

/** A long list: as text, one element a line. */
function Lines({ list, ...props }: WidgetProps & { list: Json[] }) {
  return (
    <MultilineField
      {...props}
      value={list.map(asRead).join("\n")}
      onChange={(text, change) => props.onChange(linesOf(String(text), props.spec), change)}
    />
  );
}

/** What is no number stays a text, and the server says what is wrong with it. */
export function linesOf(text: string, spec: Pick<InputSpec, "type">): Json {
  const lines = text.split("\n").filter((line) => line.trim());
  if (isTexts(spec)) return lines;
  return lines.map((line) => (Number.isFinite(Number(line)) ? Number(line) : line));
}

function focusIn(line: HTMLElement | null, done: () => void): void {
  const field = line?.querySelector<HTMLElement>("textarea, input");
  if (!field) return;
  field.focus();
  done();
}

function isTexts({ type }: Pick<InputSpec, "type">): boolean {
  return type === "list[string]";
}

export function listText(value: Json | undefined): string {
  return Array.isArray(value) ? asRead(value).slice(1, -1) : typeof value === "string" ? value : "";
}

/** What is no list yet stays a text, and the server says what is wrong with it. */
export function listOf(text: string): Json {
  const inner = text.trim().replace(/^\[|\]$/g, "");
  if (!inner.trim()) return null;
  try {
    return JSON.parse(`[${inner}]`) as Json;
  } catch {
    return text;
  }
}
