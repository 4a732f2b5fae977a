import { useState, type KeyboardEvent } from "react";

interface TextLineProps {
  label: string;
  value: string;
  onSettle: (text: string) => void;
  className?: string;
}

/** A line of text that becomes a field on double click or Enter; settled on Enter or when it is left. */
export function TextLine({ label, value, onSettle, className = "" }: TextLineProps) {
  const [isEditing, setEditing] = useState(false);
  if (!isEditing) {
    return (
      <span
        className={`ll-text-line ${className}`}
        onDoubleClick={(event) => {
          event.stopPropagation();
          setEditing(true);
        }}
      >
        {value || label}
      </span>
    );
  }
  const onKeyDown = (event: KeyboardEvent<HTMLInputElement>) => {
    event.stopPropagation();
    if (event.key === "Escape") event.currentTarget.value = value;
    if (event.key === "Escape" || event.key === "Enter") event.currentTarget.blur();
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
        setEditing(false);
      }}
    />
  );
}
