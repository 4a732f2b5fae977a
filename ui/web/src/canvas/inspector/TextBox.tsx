import { useState } from "react";

interface TextBoxProps {
  id: string;
  label: string;
  value: string;
  placeholder?: string;
  help?: string;
  isLong?: boolean;
  /** Called when it is left or Enter is pressed, if the text changed. */
  onSettle: (text: string) => void;
}

/** A labelled text of the inspector, settled as a whole. */
export function TextBox({ id, label, value, placeholder, help, isLong = false, onSettle }: TextBoxProps) {
  const [draft, setDraft] = useState<string | null>(null);
  const settle = () => {
    if (draft !== null && draft.trim() !== value) onSettle(draft.trim());
    setDraft(null);
  };
  const shared = {
    id,
    className: "ll-input",
    value: draft ?? value,
    placeholder,
    "aria-describedby": help ? `${id}-help` : undefined,
    onBlur: settle,
  };
  return (
    <div className="ll-text-box">
      <label htmlFor={id}>{label}</label>
      {isLong ? (
        <textarea {...shared} rows={3} onChange={(event) => setDraft(event.target.value)} />
      ) : (
        <input
          {...shared}
          type="text"
          maxLength={200}
          autoComplete="off"
          spellCheck={false}
          onChange={(event) => setDraft(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter") settle();
            if (event.key === "Escape") setDraft(null);
          }}
        />
      )}
      {help && <small id={`${id}-help`}>{help}</small>}
    </div>
  );
}
