import { asRead } from "../exact";
import type { Json } from "../types";
import { TextField } from "./TextField";
import type { WidgetProps } from "./widget";

/** A list of plain values in one line, with commas between; texts in quotes. Empty is no list. */
export function ListField(props: WidgetProps) {
  return (
    <TextField
      {...props}
      value={listText(props.value)}
      placeholder={props.placeholder ?? (props.spec.type === "list[string]" ? '"a", "b"' : "1, 0.5")}
      onChange={(text, change) => props.onChange(listOf(String(text)), change)}
    />
  );
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
