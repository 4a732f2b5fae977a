import { useCallback, useEffect, useRef, type KeyboardEvent } from "react";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { Spinner } from "../../parts/Spinner";
import type { Result } from "../../types";
import { gallery, useGallery } from "../galleryState";
import { byDay } from "../resultPages";
import { day } from "../resultWords";
import { Tile } from "./Tile";

const AHEAD = "1200px";

/** All results day by day, newest first; older ones are loaded as one scrolls. */
export function ResultList({ items }: { items: readonly Result[] }) {
  const isChoosing = useGallery((state) => state.isChoosing);
  const chosen = useGallery((state) => state.chosen);
  const list = useRef<HTMLDivElement>(null);
  const last = useRef("");
  const shown = useRef(items);
  shown.current = items;

  const onOpen = useCallback((result: Result) => gallery.getState().show({ view: "detail", result, among: null }), []);
  const onChoose = useCallback((result: Result, isChosen: boolean, isRange: boolean) => {
    const { choose } = gallery.getState();
    const ids = shown.current.map((item) => item.id);
    const [from, to] = [ids.indexOf(last.current), ids.indexOf(result.id)].sort((a, b) => a - b) as [number, number];
    const all = isRange && from >= 0 ? ids.slice(from, to + 1) : [result.id];
    for (const id of all) choose(id, isRange || isChosen);
    last.current = result.id;
  }, []);

  return (
    <div ref={list} className="ll-results" onKeyDown={(event) => moveFocus(event, list.current)}>
      {byDay(items).map(({ start, items: ofDay }) => (
        <section key={start} aria-label={day(start)}>
          <h3 className="ll-results-day">{day(start)}</h3>
          <ul className="ll-tiles">
            {ofDay.map((result) => (
              <Tile
                key={result.id}
                result={result}
                isChoosing={isChoosing}
                isChosen={chosen.has(result.id)}
                onOpen={onOpen}
                onChoose={onChoose}
              />
            ))}
          </ul>
        </section>
      ))}
      <Older count={items.length} />
    </div>
  );
}

/** The end of the list: loads older results as soon as it is nearly in sight. */
function Older({ count }: { count: number }) {
  const mark = useRef<HTMLDivElement>(null);
  const isEnd = useGallery((state) => state.isEnd);
  const isLoading = useGallery((state) => state.isLoading);
  const problem = useGallery((state) => state.problem);

  useEffect(() => {
    const element = mark.current;
    if (!element || isEnd || isLoading || problem) return;
    const watcher = new IntersectionObserver(
      (entries) => {
        if (entries.some((entry) => entry.isIntersecting)) void gallery.getState().more();
      },
      { root: element.closest(".ll-gallery"), rootMargin: AHEAD },
    );
    watcher.observe(element);
    return () => watcher.disconnect();
  }, [isEnd, isLoading, problem, count]);

  return (
    <div ref={mark} className="ll-results-end">
      {isLoading && <Spinner label={t("gallery.loading")} isVisible />}
      {problem && (
        <p role="alert">
          {problem} <Button onClick={() => void gallery.getState().refresh()}>{t("gallery.again")}</Button>
        </p>
      )}
    </div>
  );
}

/** Arrow keys go from picture to picture as they lie on the screen. */
function moveFocus(event: KeyboardEvent, list: HTMLElement | null): void {
  if (!list || !event.key.startsWith("Arrow")) return;
  const tiles = [...list.querySelectorAll<HTMLElement>(".ll-tile-open")];
  const at = tiles.findIndex((tile) => tile === event.target);
  const from = tiles[at]?.getBoundingClientRect();
  if (!from) return;
  event.preventDefault();
  if (event.key === "ArrowLeft") tiles[at - 1]?.focus();
  else if (event.key === "ArrowRight") tiles[at + 1]?.focus();
  else nearest(tiles, from, event.key === "ArrowUp" ? -1 : 1)?.focus();
}

function nearest(tiles: readonly HTMLElement[], from: DOMRect, direction: 1 | -1): HTMLElement | undefined {
  let best: { tile: HTMLElement; far: number } | undefined;
  for (const tile of tiles) {
    const rect = tile.getBoundingClientRect();
    const down = (rect.top - from.top) * direction;
    if (down < from.height / 2) continue;
    const far = down * 10 + Math.abs(rect.left - from.left);
    if (!best || far < best.far) best = { tile, far };
  }
  return best?.tile;
}
