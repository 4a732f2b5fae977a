import { useEffect, useId, useRef, useState, type KeyboardEvent, type RefObject } from "react";
import { IconButton } from "../IconButton";
import { Icon, type IconName } from "../icons";
import { focusedBeside } from "./focus";
import { Popover, type Point } from "./Popover";

export interface MenuAction {
  label: string;
  onSelect: () => void;
  icon?: IconName;
  /** A keyboard shortcut, shown at the right. */
  hint?: string;
  isDanger?: boolean;
  isDisabled?: boolean;
}

/** "-" draws a line between groups. */
export type MenuItem = MenuAction | "-";

interface MenuProps {
  label: string;
  items: readonly MenuItem[];
  at: RefObject<HTMLElement | null> | Point;
  onClose: () => void;
}

/** A menu, open while it is mounted: for context menus give a point of the window as `at`. */
export function Menu({ label, items, at, onClose }: MenuProps) {
  const box = useRef<HTMLDivElement>(null);
  const back = useRef<HTMLElement | null>(null);
  const typed = useRef({ text: "", time: 0 });
  useEffect(() => {
    back.current = focusedBeside(box.current);
    entries(box.current)[0]?.focus();
  }, []);

  const close = () => {
    onClose();
    back.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    event.stopPropagation();
    const all = entries(box.current);
    const at = all.indexOf(focusedBeside(box.current) as HTMLElement);
    const goTo: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 };
    const next = goTo[event.key];
    if (event.key === "Escape" || event.key === "Tab") close();
    else if (next !== undefined) all.at(next % all.length)?.focus();
    else if (event.key.length === 1 && event.key !== " ") {
      const now = event.timeStamp;
      const text = (now - typed.current.time < 700 ? typed.current.text : "") + event.key.toLowerCase();
      typed.current = { text, time: now };
      all.find((entry) => entry.textContent?.toLowerCase().startsWith(text))?.focus();
      return;
    } else return;
    event.preventDefault();
  };

  return (
    <Popover
      ref={box}
      anchor={at}
      onDismiss={onClose}
      role="menu"
      aria-label={label}
      className="ll-menu"
      onKeyDown={onKeyDown}
      onContextMenu={(event) => event.preventDefault()}
    >
      {items.map((item, index) =>
        item === "-" ? (
          <div key={index} role="separator" className="ll-menu-line" />
        ) : (
          <button
            key={index}
            type="button"
            role="menuitem"
            tabIndex={-1}
            className={`ll-menu-item ${item.isDanger ? "ll-menu-danger" : ""}`}
            aria-disabled={item.isDisabled || undefined}
            onClick={() => {
              if (item.isDisabled) return;
              close();
              item.onSelect();
            }}
          >
            <span className="ll-menu-icon">{item.icon && <Icon name={item.icon} />}</span>
            <span>{item.label}</span>
            {item.hint && <kbd aria-hidden="true">{item.hint}</kbd>}
          </button>
        ),
      )}
    </Popover>
  );
}

interface MenuButtonProps {
  label: string;
  items: readonly MenuItem[];
  icon?: IconName;
  /** Shows `label` in words beside the icon. */
  hasText?: boolean;
  disabled?: boolean;
  className?: string;
}

/** A button that opens a menu below itself. */
export function MenuButton({
  label,
  items,
  icon = "more",
  hasText = false,
  disabled,
  className = "",
}: MenuButtonProps) {
  const [isOpen, setOpen] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const id = useId();
  const shared = {
    ref: button,
    id,
    disabled,
    "aria-haspopup": "menu" as const,
    "aria-expanded": isOpen,
    onClick: () => setOpen(!isOpen),
    onKeyDown: (event: KeyboardEvent) => {
      if (event.key !== "ArrowDown") return;
      event.preventDefault();
      setOpen(true);
    },
  };
  return (
    <>
      {hasText ? (
        <button type="button" {...shared} className={`ll-button ll-button-ghost ${className}`}>
          <Icon name={icon} />
          <span>{label}</span>
          <Icon name="chevron-down" size={12} />
        </button>
      ) : (
        <IconButton {...shared} icon={icon} label={label} className={className} />
      )}
      {isOpen && <Menu label={label} items={items} at={button} onClose={() => setOpen(false)} />}
    </>
  );
}

function entries(box: HTMLElement | null): HTMLElement[] {
  return box ? [...box.querySelectorAll<HTMLElement>("[role=menuitem]")] : [];
}
