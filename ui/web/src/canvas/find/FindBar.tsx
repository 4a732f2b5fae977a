import { useEffect, useMemo, useRef, useState, type KeyboardEvent } from "react";
import { find, type Hit } from "../../graph/find";
import { t } from "../../i18n";
import { spoken } from "../../parts/format";
import { IconButton } from "../../parts/IconButton";
import { Icon } from "../../parts/icons";
import { editorStore, select, useEditor } from "../../store/editor";
import { useTold } from "../../store/told";
import { canvasUi, useCanvasUi } from "../canvasUi";
import { centre, focusItem } from "../commands/focusItem";

/** So many are listed; the arrows walk all of them. */
const LISTED = 100;
const MARKED = 400;

/** Finds nodes, values, notes and problems: Enter goes from one to the next. */
export function FindBar() {
  const graph = useEditor((state) => state.graph);
  const catalog = useEditor((state) => state.catalog);
  const problems = useTold((told) => told.problems);
  const { query, at, numOpened } = useCanvasUi((ui) => ui.find) ?? { query: "", at: -1, numOpened: 0 };
  const field = useRef<HTMLInputElement>(null);
  const list = useRef<HTMLUListElement>(null);
  const [start] = useState(() => [...editorStore.getState().selection]);
  const hits = useMemo(() => find(graph, catalog, problems, query), [graph, catalog, problems, query]);
  const here = hits.length ? Math.min(at, hits.length - 1) : -1;

  useEffect(() => field.current?.select(), [numOpened]);
  useEffect(() => {
    list.current?.querySelector("[aria-current=true]")?.scrollIntoView({ block: "nearest" });
  }, [here]);

  const walk = (to: number) => {
    const next = hits.at(to % hits.length);
    if (!next) return;
    setFind({ at: (to + hits.length) % hits.length });
    select([next.key]);
    centre(next.key);
  };
  const leave = () => {
    const key = hits[here]?.key ?? start[0];
    canvasUi.setState({ find: null });
    if (key) focusItem(key);
    else canvasUi.getState().box?.focus({ preventScroll: true });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Enter" || event.key === "ArrowDown") walk(event.shiftKey ? here - 1 : here + 1);
    else if (event.key === "ArrowUp") walk(here - 1);
    else if (event.key === "Escape") leave();
    else {
      if (!event.ctrlKey && !event.metaKey && !event.altKey) event.stopPropagation();
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <section className="ll-find" role="search" aria-label={t("canvas.find")}>
      <div className="ll-find-line">
        <Icon name="search" />
        <input
          ref={field}
          autoFocus
          aria-label={t("canvas.find")}
          placeholder={t("canvas.find_what")}
          value={query}
          spellCheck={false}
          onChange={(event) => setFind({ query: event.target.value, at: -1 })}
          onKeyDown={onKeyDown}
        />
        <span className="ll-find-count" role="status">
          {query.trim() && (hits.length ? `${here + 1} / ${hits.length}` : t("canvas.find_none"))}
        </span>
        <IconButton icon="chevron-up" size={16} label={t("canvas.find_last")} onClick={() => walk(here - 1)} />
        <IconButton icon="chevron-down" size={16} label={t("canvas.find_next")} onClick={() => walk(here + 1)} />
        <IconButton icon="close" size={16} label={t("canvas.find_close")} onClick={leave} />
      </div>
      {hits.length > 0 && (
        <ul ref={list} className="ll-find-hits" aria-label={t("canvas.find_hits")}>
          {hits.slice(0, LISTED).map((hit, index) => (
            <li key={`${hit.key} ${hit.where} ${hit.socket}`}>
              <button type="button" aria-current={index === here} onClick={() => walk(index)}>
                <OneHit hit={hit} />
              </button>
            </li>
          ))}
          {hits.length > LISTED && <li className="ll-quiet">{t("canvas.find_more", { n: hits.length - LISTED })}</li>}
        </ul>
      )}
      <Marks hits={hits} />
    </section>
  );
}

function OneHit({ hit: { title, where, socket, text } }: { hit: Hit }) {
  const isTitle = where === "title" || where === "group";
  const place = where === "value" || where === "param" ? spoken(socket) : t(`canvas.find_in_${where}`);
  return (
    <>
      <strong>{title || t(`canvas.find_in_${where}`)}</strong>
      {!isTitle && (
        <span>
          {title && <em>{place}</em>} {text}
        </span>
      )}
    </>
  );
}

/** A frame round all that matches: one style rule instead of drawing every node anew. */
function Marks({ hits }: { hits: readonly Hit[] }) {
  const keys = [...new Set(hits.map(({ key }) => key))].slice(0, MARKED);
  if (keys.length === 0) return null;
  const nodes = keys.map((key) => `.react-flow__node[data-id="${CSS.escape(key)}"]`).join(", ");
  return <style>{`.ll-canvas :is(${nodes}) { outline: 2px solid var(--ll-warn); outline-offset: 4px; }`}</style>;
}

function setFind(change: { query?: string; at?: number }): void {
  canvasUi.setState(({ find: old }) => ({ find: old && { ...old, ...change } }));
}
