import { SETTLED, type WidgetProps } from "./widget";

/** On or off. */
export function SwitchField({ id, value, onChange, disabled, describedBy }: WidgetProps) {
  return (
    <span className="ll-switch nodrag">
      <input
        id={id}
        type="checkbox"
        role="switch"
        aria-describedby={describedBy}
        disabled={disabled}
        checked={value === true}
        onChange={(event) => onChange(event.target.checked, SETTLED)}
      />
      <span className="ll-switch-track" aria-hidden="true" />
    </span>
  );
}
