import { useId, useLayoutEffect, useRef, useState, type KeyboardEvent, type ReactNode } from "react";
import { t } from "../../i18n";
import { Icon } from "../../parts/icons";
import { meantBy } from "../../store/keyBindings";
import { lookOf } from "../look";
import { TypeDot } from "../nodes/TypeDot";
import { found, type Searchable } from "./searchRank";

export interface SearchItem extends Searchable {
  id: string;
  group: string;
  /** Type whose shape and colour stand before the label. */
  type?: string;
  hint?: string;
}

interface SearchListProps<T extends SearchItem> {
  label: string;
  placeholder: string;
  items: readonly T[];
  onPick: (item: T) => void;
  onClose: () => void;
  /** Steps back, where there is a step to go back to. */
  onBack?: () => void;
  /** More about the item that Enter takes. */
  onHelp?: (item: T) => void;
  /** About the item that Enter takes. */
  about?: (item: T) => ReactNode;
  /** What there is to say of what was typed. */
  note?: (query: string) => string;
}

/** A search field over a list in groups: arrows choose, Enter takes, Escape leaves. */
export function SearchList<T extends SearchItem>(props: SearchListProps<T>) {
  const { label, placeholder, items, onPick, onClose, onBack, onHelp, about, note } = props;
  const [query, setQuery] = useState("");
  const [at, setAt] = useState(0);
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const said = note?.(query) ?? "";
  const groups = grouped(found(items, query));
  const hits = groups.flatMap((group) => group.items);
  const active = hits[Math.min(at, hits.length - 1)];

  useLayoutEffect(() => {
    list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [active]);

  const onKeyDown = (event: KeyboardEvent) => {
    event.stopPropagation();
    const last = hits.length - 1;
    const steps: Record<string, number> = {
      ArrowDown: at >= last ? 0 : at + 1,
      ArrowUp: at <= 0 ? last : at - 1,
      PageDown: Math.min(last, at + 8),
      PageUp: Math.max(0, at - 8),
    };
    const next = steps[event.key];
    if (next !== undefined) setAt(next);
    else if (event.key === "Enter") active && onPick(active);
    else if (meantBy(event)?.key === "F1" && onHelp) active && onHelp(active);
    else if (event.key === "Escape" || event.key === "Tab") onClose();
    else if (event.key === "Backspace" && query === "" && onBack) onBack();
    else return;
    event.preventDefault();
  };

  return (
    <div className="ll-search">
      <div className="ll-search-field">
        <Icon name="search" />
        <input
          ref={(field) => field?.focus({ preventScroll: true })}
          role="combobox"
          aria-label={label}
          aria-expanded="true"
          aria-autocomplete="list"
          aria-controls={`${id}-list`}
          aria-activedescendant={active ? `${id}-${active.id}` : undefined}
          placeholder={placeholder}
          value={query}
          onChange={(event) => {
            setQuery(event.target.value);
            setAt(0);
          }}
          onKeyDown={onKeyDown}
        />
      </div>
      <div className="ll-search-list" role="listbox" id={`${id}-list`} aria-label={label} ref={list} tabIndex={-1}>
        {groups.map((group) => (
          <div key={group.name} role="group" aria-label={group.name}>
            <div className="ll-search-group" aria-hidden="true">
              {group.name}
            </div>
            {group.items.map((item) => (
              <Option
                key={item.id}
                id={`${id}-${item.id}`}
                item={item}
                isActive={item === active}
                onPick={() => onPick(item)}
                onPoint={() => setAt(hits.indexOf(item))}
              />
            ))}
          </div>
        ))}
      </div>
      {said && <p className="ll-search-note">{said}</p>}
      {hits.length === 0 && <p className="ll-search-none">{t("canvas.nothing_found", { query })}</p>}
      {active && about && <div className="ll-search-about">{about(active)}</div>}
      <div className="ll-hidden" role="status">
        {query ? `${t("canvas.num_found", { n: hits.length })} ${said}` : ""}
      </div>
    </div>
  );
}

interface OptionProps {
  id: string;
  item: SearchItem;
  isActive: boolean;
  onPick: () => void;
  onPoint: () => void;
}

function Option({ id, item, isActive, onPick, onPoint }: OptionProps) {
  const look = item.type === undefined ? null : lookOf(item.type);
  return (
    <div
      role="option"
      id={id}
      aria-selected={isActive}
      className="ll-search-item"
      onClick={onPick}
      onPointerMove={isActive ? undefined : onPoint}
    >
      {look && (
        <span className={`ll-tone-${look.tone} ll-search-dot`}>
          <TypeDot type={item.type ?? ""} isLinked />
        </span>
      )}
      <span className="ll-search-label">{item.label}</span>
      {item.hint && <span className="ll-search-hint">{item.hint}</span>}
    </div>
  );
}

interface ItemGroup<T> {
  name: string;
  items: T[];
}

/** Items by their group; groups come in the order of their best hit. */
function grouped<T extends SearchItem>(items: readonly T[]): ItemGroup<T>[] {
  const groups = new Map<string, T[]>();
  for (const item of items) groups.set(item.group, [...(groups.get(item.group) ?? []), item]);
  return [...groups].map(([name, members]) => ({ name, items: members }));
}
