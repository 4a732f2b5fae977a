import { useState } from "react";
import { t } from "../i18n";
import { Combobox } from "../parts/overlays/Combobox";
import { SETTLED, asText, type WidgetProps } from "./widget";

const KEY = "latentloom.loras";
const MAX_KEPT = 20;

/** A LoRA's file by name; those named before in this browser are offered again. */
export function LoraField({ id, value, onChange, disabled, describedBy, isInvalid, placeholder }: WidgetProps) {
  const [used, setUsed] = useState<readonly string[]>([]);
  const choose = (file: string) => {
    remember(file);
    onChange(file, SETTLED);
  };
  return (
    <Combobox
      id={id}
      value={asText(value)}
      options={used.map((file) => ({ value: file }))}
      isFree
      disabled={disabled}
      describedBy={describedBy}
      isInvalid={isInvalid}
      placeholder={placeholder ?? t("widgets.lora_hint")}
      onOpen={() => setUsed(remembered())}
      onChange={choose}
    />
  );
}

function remembered(): string[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(found) ? found.filter((entry) => typeof entry === "string") : [];
  } catch {
    return []; // no storage, or another program's text
  }
}

function remember(file: string): void {
  if (!file) return;
  const next = [file, ...remembered().filter((entry) => entry !== file)].slice(0, MAX_KEPT);
  try {
    localStorage.setItem(KEY, JSON.stringify(next));
  } catch {
    return; // full or forbidden: nothing is offered next time
  }
}
