import { useState, type KeyboardEvent } from "react";
import { canvasUi, useCanvasUi } from "../canvasUi";
import { focusItem } from "../commands/focusItem";

interface TitleLineProps {
  /** Of the thing whose title this is: F2 on it opens the field. */
  of: string;
  label: string;
  value: string;
  onSettle: (text: string) => void;
  className?: string;
}

/** A title that becomes a field on double click or F2; settled on Enter or when it is left. */
export function TitleLine({ of, label, value, onSettle, className = "" }: TitleLineProps) {
  const [isClicked, setClicked] = useState(false);
  const isAsked = useCanvasUi((ui) => ui.renaming === of);
  if (!isClicked && !isAsked) {
    return (
      <span
        className={`ll-text-line ${className}`}
        onDoubleClick={(event) => {
          event.stopPropagation();
          setClicked(true);
        }}
      >
        {value || label}
      </span>
    );
  }
  const onKeyDown = (event: KeyboardEvent<HTMLInputElement>) => {
    event.stopPropagation();
    if (event.key === "Escape") event.currentTarget.value = value;
    if (event.key !== "Escape" && event.key !== "Enter") return;
    event.currentTarget.blur();
    focusItem(of);
  };
  return (
    <input
      className={`ll-text-line-field nodrag ${className}`}
      aria-label={label}
      defaultValue={value}
      maxLength={200}
      ref={(field) => field?.focus()}
      onFocus={(event) => event.currentTarget.select()}
      onKeyDown={onKeyDown}
      onBlur={(event) => {
        if (event.currentTarget.value.trim() !== value) onSettle(event.currentTarget.value.trim());
        setClicked(false);
        if (isAsked) canvasUi.setState({ renaming: "" });
      }}
    />
  );
}
