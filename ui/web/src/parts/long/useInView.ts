import { useCallback, useEffect, useLayoutEffect, useRef, useState, type FocusEvent, type RefObject } from "react";
import { flushSync } from "react-dom";
import { between, shiftOf, type Box } from "./boxes";

/** So far above and below the window entries are drawn already, px. */
const AHEAD = 700;
const AT_FIRST: readonly [number, number] = [0, 24];

interface InView {
  /** The indices of what is drawn: what is near the window, and the one that has the focus or is dragged. */
  shown: readonly number[];
  /** Scroll an entry into the window and give the focus to what `inside` finds in it; false where that is nothing. */
  goTo: (index: number, inside: string) => boolean;
  /** It stays drawn wherever one scrolls; null lets it go. */
  hold: (key: string | null) => void;
  /** For the list: what has the focus is held. Entries have their key as `data-key`. */
  holding: { onFocus: (event: FocusEvent) => void; onBlur: (event: FocusEvent) => void };
}

/** Of a long list only what is near the window of its `scroller` is drawn; what one looks at stays where it is when others
 * come in above. */
export function useInView(list: RefObject<HTMLElement | null>, boxes: readonly Box[], scroller: string): InView {
  const [[first, end], setRange] = useState(AT_FIRST);
  const [held, setHeld] = useState<string | null>(null);
  const seen = useRef<readonly Box[]>([]);
  const focused = useRef<HTMLElement | null>(null);
  const now = useRef(boxes);
  now.current = boxes;

  const measure = useCallback(() => {
    const element = list.current;
    const room = element?.closest(scroller);
    if (!element || !room || room.clientHeight === 0) return; // in a tab that is not shown
    const from = room.getBoundingClientRect().top - element.getBoundingClientRect().top;
    const to = from + room.clientHeight;
    seen.current = from > 0 ? now.current.slice(...between(now.current, from, to)) : [];
    const next = between(now.current, from - AHEAD, to + AHEAD);
    setRange((old) => (old[0] === next[0] && old[1] === next[1] ? old : next));
  }, [list, scroller]);

  useLayoutEffect(() => {
    const shift = shiftOf(seen.current, boxes);
    if (shift !== 0) list.current?.closest(scroller)?.scrollBy(0, shift);
    measure();
  }, [boxes, list, scroller, measure]);

  useEffect(() => {
    const room = list.current?.closest(scroller);
    if (!room) return;
    const watcher = new ResizeObserver(measure);
    watcher.observe(room);
    room.addEventListener("scroll", measure, { passive: true });
    return () => {
      watcher.disconnect();
      room.removeEventListener("scroll", measure);
    };
  }, [list, scroller, measure]);

  const goTo = useCallback(
    (index: number, inside: string) => {
      const box = now.current[index];
      const room = list.current?.closest(scroller);
      if (!box || !room || !list.current) return false;
      const top = list.current.getBoundingClientRect().top - room.getBoundingClientRect().top + box.top;
      const below = top + box.height - room.clientHeight;
      if (top < 0) room.scrollBy(0, top);
      else if (below > 0) room.scrollBy(0, below);
      flushSync(() => {
        setHeld(box.key);
        measure();
      });
      const found = list.current.querySelector<HTMLElement>(`[data-key="${CSS.escape(box.key)}"] ${inside}`);
      found?.focus();
      return found !== null;
    },
    [list, scroller, measure],
  );

  const onFocus = useCallback((event: FocusEvent) => {
    focused.current = event.target as HTMLElement;
    setHeld(keyOf(event.target));
  }, []);
  const onBlur = useCallback((event: FocusEvent) => {
    focused.current = null;
    if (keyOf(event.relatedTarget) === null) setHeld(null);
  }, []);
  useLayoutEffect(() => {
    // An entry that changed its place was taken out and put in again, which takes the focus from it.
    const element = focused.current;
    if (!element?.isConnected) focused.current = null;
    else if ((element.getRootNode() as Document).activeElement !== element) element.focus({ preventScroll: true });
  }, [boxes]);

  const last = Math.min(end, boxes.length);
  const shown = Array.from({ length: Math.max(last - first, 0) }, (_, at) => first + at);
  const place = held === null ? -1 : boxes.findIndex(({ key }) => key === held);
  if (place >= 0 && place < first) shown.unshift(place);
  else if (place >= last) shown.push(place);
  return { shown, goTo, hold: setHeld, holding: { onFocus, onBlur } };
}

function keyOf(target: EventTarget | null): string | null {
  return target instanceof Element ? (target.closest<HTMLElement>("[data-key]")?.dataset["key"] ?? null) : null;
}
