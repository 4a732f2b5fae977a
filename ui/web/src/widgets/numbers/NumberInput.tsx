import { useEffect, useRef, useState, type KeyboardEvent } from "react";
import { isDigits, reachOf } from "../../exact";
import { t } from "../../i18n";
import { keepTyping } from "../../parts/keys";
import type { InputSpec } from "../../types";
import { SETTLED, asText, type WidgetProps } from "../widget";
import { readNumber, stepped } from "./numberRange";

const BIG_STEP = 10;

/** A typed number: settled on Enter or when it is left; arrow keys step it, Escape takes the typing back. */
export function NumberInput(props: WidgetProps) {
  const { id, spec, value, onChange, disabled, describedBy, isInvalid, placeholder, meant } = props;
  const [typed, setTyped] = useState<string | null>(null);
  const [said, setSaid] = useState("");
  const [isInside, setInside] = useState(false);
  const number = typeof value === "number" ? value : null;

  const settle = () => {
    if (typed === null) return;
    setTyped(null);
    const range = reachOf(spec);
    const read = readNumber(typed, range);
    if (read.value === null) {
      if (typed.trim() !== "" || number !== null) setSaid(noNumber(typed, number));
      return;
    }
    if (read.changed === "limited") setSaid(t("widgets.limited", { range: rangeText(range), value: read.value }));
    else if (read.changed === "rounded") setSaid(t("widgets.rounded", { value: read.value }));
    if (read.value !== number) onChange(read.value, SETTLED);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    keepTyping(event);
    if (event.key === "Enter") settle();
    else if (event.key === "Escape" && typed !== null) setTyped(null);
    else if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      if (typed === null && isDigits(value)) return; // it cannot be stepped without being rounded
      const from = typed === null ? number : readNumber(typed, reachOf(spec)).value;
      const by = (event.key === "ArrowUp" ? 1 : -1) * (event.shiftKey ? BIG_STEP : 1);
      setTyped(null);
      setSaid("");
      onChange(stepped(from ?? 0, by, reachOf(spec)), SETTLED);
    } else return;
    event.preventDefault();
  };

  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (isInside) input.current?.select(); // once what it stands for has made way for the number
  }, [isInside]);

  return (
    <>
      <input
        ref={input}
        id={id}
        className="ll-input ll-number-input nodrag"
        type="text"
        inputMode={spec.type === "int" && (spec.min ?? -1) >= 0 ? "numeric" : "text"}
        role="spinbutton"
        autoComplete="off"
        aria-valuenow={number ?? undefined}
        aria-valuemin={spec.min ?? undefined}
        aria-valuemax={spec.max ?? undefined}
        aria-describedby={describedBy}
        aria-invalid={isInvalid || undefined}
        aria-valuetext={meant}
        placeholder={meant ?? placeholder}
        disabled={disabled}
        value={typed ?? (meant && !isInside ? "" : asText(value))}
        onChange={(event) => {
          setSaid("");
          setTyped(event.target.value);
        }}
        onFocus={() => setInside(true)}
        onKeyDown={onKeyDown}
        onBlur={() => {
          setInside(false);
          settle();
        }}
      />
      {said && (
        <p className="ll-field-said" role="alert">
          {said}
        </p>
      )}
    </>
  );
}

function noNumber(text: string, kept: number | null): string {
  return kept === null ? t("widgets.no_number_yet", { text }) : t("widgets.no_number", { text, kept });
}

function rangeText({ min, max }: InputSpec): string {
  if (min !== null && max !== null) return t("widgets.between", { min, max });
  return min !== null ? t("widgets.at_least", { min }) : t("widgets.at_most", { max: max ?? "" });
}
