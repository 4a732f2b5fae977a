import { useId, useMemo, useRef, useState, type KeyboardEvent, type MouseEvent } from "react";
import { t } from "../../i18n";
import { Icon } from "../icons";
import { keepTyping } from "../keys";
import { Words } from "../Words";
import { Popover } from "./Popover";

export interface Option {
  value: string;
  /** What is shown; the value itself where empty. */
  label?: string;
  /** A second line: what tells this option from the others. */
  detail?: string;
  /** Address of a small picture. */
  picture?: string;
  /** Why this one will not work, as a sentence; it can still be chosen. */
  problem?: string;
  /** Greyed: there are better ones. */
  isOff?: boolean;
}

interface ComboboxProps {
  id?: string;
  value: string;
  options: readonly Option[];
  /** Called when a value is settled: an option picked, or (with `isFree`) text left or confirmed with Enter. */
  onChange: (value: string) => void;
  /** Takes text that is no option. */
  isFree?: boolean;
  label?: string;
  placeholder?: string;
  disabled?: boolean;
  describedBy?: string;
  isInvalid?: boolean;
  onOpen?: () => void;
}

/** A text field with a list of suggestions that is filtered while typing. */
export function Combobox(props: ComboboxProps) {
  const { id, value, options, onChange, isFree = false, label, placeholder, disabled, describedBy, isInvalid } = props;
  const listId = useId();
  const field = useRef<HTMLDivElement>(null);
  const [typed, setTyped] = useState<string | null>(null);
  const [isOpen, setOpen] = useState(false);
  const [active, setActive] = useState(-1);

  const shown = typed ?? labelOf(options.find((option) => option.value === value)) ?? value;
  const found = useMemo(() => matching(options, typed), [options, typed]);
  const isShown = isOpen && (found.length > 0 || !isFree);

  const open = () => {
    if (isOpen) return;
    props.onOpen?.();
    setOpen(true);
    setActive(options.findIndex((option) => option.value === value));
  };
  const close = () => {
    setOpen(false);
    setActive(-1);
  };
  const pick = (next: string) => {
    setTyped(null);
    close();
    if (next !== value) onChange(next);
  };
  const settle = () => {
    if (typed !== null && isFree) pick(typed.trim());
    else setTyped(null);
    close();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    keepTyping(event);
    if (event.key === "Enter") {
      const option = isOpen ? found[active] : undefined;
      if (option) pick(option.value);
      else settle();
    } else if (event.key === "Escape" && (isOpen || typed !== null)) {
      setTyped(null);
      close();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (!isOpen) open();
      else if (found.length > 0) setActive(step(active, event.key === "ArrowDown" ? 1 : -1, found.length));
    } else return;
    event.preventDefault();
  };

  return (
    <div className="ll-combobox nodrag" ref={field}>
      <input
        id={id}
        className="ll-input"
        role="combobox"
        type="text"
        autoComplete="off"
        spellCheck={false}
        aria-label={label}
        aria-expanded={isShown}
        aria-controls={isShown ? listId : undefined}
        aria-autocomplete="list"
        aria-activedescendant={isOpen && active >= 0 ? `${listId}-${active}` : undefined}
        aria-describedby={describedBy}
        aria-invalid={isInvalid || undefined}
        placeholder={placeholder}
        disabled={disabled}
        value={shown}
        onChange={(event) => {
          open();
          setTyped(event.target.value);
          setActive(isFree ? -1 : 0);
        }}
        onFocus={(event) => event.target.select()}
        onClick={(event) => {
          // The words of a choice are replaced, not edited; free text keeps the caret where it was put.
          if (!isFree && typed === null) event.currentTarget.select();
          open();
        }}
        onKeyDown={onKeyDown}
        onBlur={settle}
      />
      <span className="ll-combobox-arrow" aria-hidden="true">
        <Icon name="chevron-down" size={14} />
      </span>
      {isShown && (
        <Popover anchor={field} onDismiss={settle} isWide className="ll-options">
          <div role="listbox" id={listId} aria-label={label ?? t("widgets.suggestions")}>
            {found.map((option, index) => (
              <div
                key={option.value}
                id={`${listId}-${index}`}
                role="option"
                className={option.isOff ? "ll-option ll-option-off" : "ll-option"}
                aria-selected={option.value === value}
                data-active={index === active || undefined}
                ref={index === active ? scrollHere : undefined}
                onMouseDown={keepFocus}
                onClick={() => pick(option.value)}
              >
                {option.picture && <img className="ll-option-picture" src={option.picture} alt="" loading="lazy" />}
                <span className="ll-option-label">{labelOf(option)}</span>
                {option.detail && (
                  <span className="ll-option-detail">
                    <Words text={option.detail} />
                  </span>
                )}
                {option.problem && <span className="ll-option-problem">{option.problem}</span>}
              </div>
            ))}
          </div>
          {found.length === 0 && <p className="ll-option-none">{t("widgets.no_match")}</p>}
        </Popover>
      )}
    </div>
  );
}

/** The text field keeps the focus while an option is pressed. */
function keepFocus(event: MouseEvent): void {
  event.preventDefault();
}

function labelOf(option: Option | undefined): string | undefined {
  return option && (option.label ?? option.value);
}

/** Those with all the words that are typed; first those that begin like it, then those that hold it as it stands. */
function matching(options: readonly Option[], typed: string | null): readonly Option[] {
  const text = typed?.trim().toLowerCase();
  if (!text) return options;
  const words = text.split(/\s+/);
  const rank = (option: Option) => {
    const at = (labelOf(option) ?? "").toLowerCase().indexOf(text);
    return at === 0 ? 0 : at > 0 ? 1 : 2;
  };
  const all = (option: Option) => `${option.label ?? ""} ${option.value} ${option.detail ?? ""}`.toLowerCase();
  return options
    .filter((option) => words.every((word) => all(option).includes(word)))
    .sort((a, b) => rank(a) - rank(b));
}

function step(at: number, by: number, length: number): number {
  return at < 0 ? (by > 0 ? 0 : length - 1) : (at + by + length) % length;
}

function scrollHere(element: HTMLElement | null): void {
  element?.scrollIntoView({ block: "nearest" });
}
