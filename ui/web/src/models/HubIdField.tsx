import { t } from "../i18n";

export const EXAMPLE = "Qwen/Qwen-Image";

interface HubIdFieldProps {
  /** What explains it has the id `<id>-help`. */
  id: string;
  typed: string;
  isWrong: boolean;
  onType: (typed: string) => void;
}

/** Where people write which model of the hub they want: its id, or its address there. */
export function HubIdField({ id, typed, isWrong, onType }: HubIdFieldProps) {
  return (
    <>
      <label htmlFor={id} className="ll-field-label">
        {t("models.hub_id")}
      </label>
      <input
        id={id}
        type="text"
        className="ll-input"
        autoComplete="off"
        spellCheck={false}
        placeholder={EXAMPLE}
        value={typed}
        aria-describedby={`${id}-help`}
        aria-invalid={isWrong || undefined}
        onChange={(event) => onType(event.target.value)}
      />
    </>
  );
}
