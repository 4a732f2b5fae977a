import { useCallback, useEffect, useMemo, useRef, type KeyboardEvent } from "react";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { useInView } from "../../parts/long/useInView";
import { Spinner } from "../../parts/Spinner";
import type { Result } from "../../types";
import { gallery, useGallery } from "../galleryState";
import { day } from "../resultWords";
import { useSize } from "../stage/useSize";
import { Tile } from "./Tile";
import { layOut, tileBeside, type Measures } from "./tileLayout";

const AHEAD = "1200px";
const SCROLLER = ".ll-gallery";
/** Below so many rem tiles are as small as for a phone. */
const NARROW = 46;

/** All results day by day, newest first; older ones are loaded as one scrolls, and only what is near is drawn. */
export function ResultList({ items }: { items: readonly Result[] }) {
  const isChoosing = useGallery((state) => state.isChoosing);
  const chosen = useGallery((state) => state.chosen);
  const isEnd = useGallery((state) => state.isEnd);
  const list = useRef<HTMLDivElement>(null);
  const last = useRef("");
  const shownItems = useRef(items);
  shownItems.current = items;
  const { width } = useSize(list);
  const layout = useMemo(() => layOut(items, measuresFor(width)), [items, width]);
  const { shown, goTo, holding } = useInView(list, layout.tiles, SCROLLER);

  const onOpen = useCallback((result: Result) => gallery.getState().show({ view: "detail", result, among: null }), []);
  const onChoose = useCallback((result: Result, isChosen: boolean, isRange: boolean) => {
    const { choose } = gallery.getState();
    const ids = shownItems.current.map((item) => item.id);
    const [from, to] = [ids.indexOf(last.current), ids.indexOf(result.id)].sort((a, b) => a - b) as [number, number];
    const all = isRange && from >= 0 ? ids.slice(from, to + 1) : [result.id];
    for (const id of all) choose(id, isRange || isChosen);
    last.current = result.id;
  }, []);
  const onKeyDown = (event: KeyboardEvent) => {
    const tile = (event.target as HTMLElement).closest<HTMLElement>(".ll-tile-open")?.parentElement;
    const at = layout.tiles.findIndex(({ key }) => key === tile?.dataset["key"]);
    const windowHeight = list.current?.closest(SCROLLER)?.clientHeight ?? 0;
    const to = at < 0 ? null : tileBeside(layout.tiles, at, event.key, windowHeight);
    if (to === null) return;
    event.preventDefault();
    goTo(to, ".ll-tile-open");
  };

  return (
    <>
      <div ref={list} className="ll-results" style={{ height: layout.height }} onKeyDown={onKeyDown} {...holding}>
        {layout.days.map(({ start, top, height, first, count }, at) => {
          const inSight = shown.filter((index) => index >= first && index < first + count);
          if (inSight.length === 0) return null;
          const isWhole = isEnd || at < layout.days.length - 1;
          return (
            <section key={start} aria-label={day(start)} style={{ top, height }}>
              <h3 className="ll-results-day">{day(start)}</h3>
              <ul className="ll-tiles">
                {inSight.map((index) => {
                  const [result, box] = [items[index], layout.tiles[index]];
                  return (
                    result &&
                    box && (
                      <Tile
                        key={result.id}
                        result={result}
                        top={box.top - top}
                        left={box.left}
                        side={layout.side}
                        place={box.place}
                        count={isWhole ? count : -1}
                        isChoosing={isChoosing}
                        isChosen={chosen.has(result.id)}
                        onOpen={onOpen}
                        onChoose={onChoose}
                      />
                    )
                  );
                })}
              </ul>
            </section>
          );
        })}
      </div>
      <Older count={items.length} />
    </>
  );
}

function measuresFor(width: number): Measures {
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  const [least, gap] = width < NARROW * rem ? [7, 0.4] : [11, 0.75];
  return { width, least: least * rem, gap: gap * rem, heading: 2 * rem, between: rem };
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
      { root: element.closest(SCROLLER), rootMargin: AHEAD },
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
