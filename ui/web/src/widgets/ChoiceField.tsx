import { word } from "../i18n";
import { Icon } from "../parts/icons";
import { keepTyping } from "../parts/keys";
import { SETTLED, asText, type WidgetProps } from "./widget";

/** One of a few words: the browser's own list, which works by touch and by keyboard everywhere. */
export function ChoiceField({
  id,
  spec,
  value,
  onChange,
  disabled,
  describedBy,
  isInvalid,
  placeholder,
  meant,
}: WidgetProps) {
  const chosen = asText(value);
  const isKnown = spec.choices.includes(chosen);
  return (
    <div className="ll-choice nodrag">
      <select
        id={id}
        className={`ll-input ll-select ${meant ? "ll-input-meant" : ""}`}
        aria-describedby={describedBy}
        aria-invalid={isInvalid || undefined}
        disabled={disabled}
        value={chosen}
        onKeyDown={keepTyping}
        onChange={(event) => onChange(event.target.value, SETTLED)}
      >
        {!isKnown && (
          <option value={chosen} disabled>
            {chosen || placeholder || ""}
          </option>
        )}
        {spec.choices.map((choice) => (
          <option key={choice} value={choice}>
            {choice === chosen && meant ? meant : (word("choice", choice) ?? choice)}
          </option>
        ))}
      </select>
      <span className="ll-combobox-arrow" aria-hidden="true">
        <Icon name="chevron-down" size={14} />
      </span>
    </div>
  );
}
