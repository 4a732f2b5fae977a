import { useState } from "react";
import { keepTyping } from "../parts/keys";
import { useDraft } from "./useDraft";
import type { WidgetProps } from "./widget";

/** One line of text, settled on Enter or when it is left. */
export function TextField({ id, value, onChange, disabled, describedBy, isInvalid, placeholder, meant }: WidgetProps) {
  const draft = useDraft(value, onChange);
  const [isInside, setInside] = useState(false);
  return (
    <input
      id={id}
      type="text"
      className="ll-input nodrag"
      autoComplete="off"
      spellCheck={false}
      aria-describedby={describedBy}
      aria-invalid={isInvalid || undefined}
      placeholder={meant ?? placeholder}
      disabled={disabled}
      value={meant && !isInside ? "" : draft.text}
      onFocus={() => setInside(true)}
      onChange={(event) => draft.type(event.target.value)}
      onBlur={() => {
        setInside(false);
        draft.settle();
      }}
      onKeyDown={(event) => {
        keepTyping(event);
        if (event.key === "Enter") draft.settle();
        else if (event.key === "Escape") draft.takeBack();
      }}
    />
  );
}
