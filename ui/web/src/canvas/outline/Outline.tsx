import { useRef, useState, type KeyboardEvent } from "react";
import { titleOf } from "../../graph/catalog";
import { find } from "../../graph/find";
import { itemKey } from "../../graph/items";
import { inOrder } from "../../graph/order";
import { specIn } from "../../graph/subs";
import { t } from "../../i18n";
import { runTo } from "../../panels/runs/runActions";
import { IconButton } from "../../parts/IconButton";
import { select, useEditor } from "../../store/editor";
import { useTold } from "../../store/told";
import { canvasUi, openPopup } from "../canvasUi";
import { focusNode } from "../commands/focusItem";
import { remove } from "../commands/itemCommands";
import { OutlineInputs } from "./OutlineInputs";

/** The graph as a list in the order of its work, for screen readers and small screens: it edits the same graph. */
export function Outline() {
  const graph = useEditor((state) => state.graph);
  const catalog = useEditor((state) => state.catalog);
  const problems = useTold((told) => told.problems);
  const [filter, setFilter] = useState("");
  const all = inOrder(graph);
  const numbers = new Map(all.map((name, index) => [name, index + 1]));
  const found = new Set(find(graph, catalog, problems, filter).map(({ key }) => key));
  const names = filter.trim() ? all.filter((name) => found.has(itemKey("node", name))) : all;
  const [at, setAt] = useState("");
  const tree = useRef<HTMLUListElement>(null);
  const active = names.includes(at) ? at : (names[0] ?? "");
  const onKeyDown = (event: KeyboardEvent) => {
    const index = names.indexOf(active);
    const steps: Record<string, number> = { ArrowDown: index + 1, ArrowUp: index - 1, Home: 0, End: names.length - 1 };
    const next = names[steps[event.key] ?? -1];
    if (steps[event.key] === undefined || event.target instanceof HTMLButtonElement || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    if (!next) return;
    setAt(next);
    tree.current?.querySelector<HTMLElement>(`[data-node="${next}"]`)?.focus();
  };
  return (
    <section className="ll-outline" aria-label={t("canvas.outline")}>
      <header>
        <h2>{t("canvas.outline")}</h2>
        <IconButton
          icon="close"
          label={t("canvas.close_outline")}
          onClick={() => canvasUi.setState({ isOutlineOpen: false })}
        />
      </header>
      <input
        type="search"
        className="ll-input ll-outline-filter"
        aria-label={t("canvas.outline_filter")}
        placeholder={t("canvas.outline_filter")}
        value={filter}
        onChange={(event) => setFilter(event.target.value)}
        onKeyDown={(event) => event.stopPropagation()}
      />
      <p className="ll-hidden" role="status">
        {filter.trim() && t("canvas.num_found", { n: names.length })}
      </p>
      <p className="ll-outline-help">{all.length ? t("canvas.outline_help") : t("canvas.empty_title")}</p>
      <ul role="tree" aria-label={t("canvas.outline")} aria-multiselectable="true" ref={tree} onKeyDown={onKeyDown}>
        {names.map((name) => (
          <Line
            key={name}
            name={name}
            number={numbers.get(name) ?? 0}
            isActive={name === active}
            onFocus={() => setAt(name)}
          />
        ))}
      </ul>
    </section>
  );
}

interface LineProps {
  name: string;
  number: number;
  isActive: boolean;
  onFocus: () => void;
}

function Line({ name, number, isActive, onFocus }: LineProps) {
  const title = useEditor((state) => titleOf(state.graph, state.catalog, name));
  const mode = useEditor((state) => state.graph.nodes[name]?.mode ?? "run");
  const type = useEditor(
    (state) => specIn(state.graph.subs, state.catalog, state.graph.nodes[name]?.type ?? "")?.title ?? "",
  );
  const isSelected = useEditor((state) => state.selection.has(itemKey("node", name)));
  const tool = { size: 14, tabIndex: isActive ? 0 : -1 };
  const wire = (button: HTMLElement) => {
    const rect = button.getBoundingClientRect();
    openPopup({ kind: "sockets", node: name, x: rect.left, y: rect.bottom });
  };
  const onKeyDown = (event: KeyboardEvent<HTMLElement>) => {
    if (event.target !== event.currentTarget) return;
    if (event.key === "Enter") wire(event.currentTarget);
    else if (event.key === "Delete") remove([itemKey("node", name)]);
    else if (event.key === "r") void runTo(name);
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <li
      role="treeitem"
      aria-selected={isSelected}
      tabIndex={isActive ? 0 : -1}
      data-node={name}
      className="ll-outline-line"
      onFocus={onFocus}
      onKeyDown={onKeyDown}
      onClick={() => select([itemKey("node", name)])}
    >
      <span className="ll-outline-title">
        <span className="ll-outline-number">{number}</span> {title}
        {type && type !== title && <small>{type}</small>}
        {mode !== "run" && <small>{t(`canvas.mode_${mode}`)}</small>}
      </span>
      <OutlineInputs name={name} />
      <div className="ll-outline-tools">
        <IconButton icon="eye" label={t("canvas.show")} onClick={() => focusNode(name)} {...tool} />
        <IconButton icon="link" label={t("canvas.connect")} onClick={(event) => wire(event.currentTarget)} {...tool} />
        <IconButton icon="play" label={t("canvas.run_here")} onClick={() => void runTo(name)} {...tool} />
        <IconButton icon="trash" label={t("canvas.remove")} onClick={() => remove([itemKey("node", name)])} {...tool} />
      </div>
    </li>
  );
}
