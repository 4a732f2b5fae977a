import { useRef, type CSSProperties, type KeyboardEvent, type ReactNode } from "react";
import { heightOf } from "./boxes";
import { useInView } from "./useInView";
import { useStack } from "./useStack";

/** What an entry's `li` is given. */
export interface EntryFrame {
  ref: (entry: HTMLElement | null) => (() => void) | undefined;
  style: CSSProperties;
  "data-key": string;
  "aria-posinset": number;
  "aria-setsize": number;
}

interface LongListProps {
  keys: readonly string[];
  /** How high an entry usually is, px. */
  usual: number;
  /** Selects what scrolls. */
  scroller: string;
  isOrdered?: boolean;
  /** False where more entries may come behind. */
  isWhole?: boolean;
  className?: string;
  /** What has the focus where the arrow keys go: they pass over entries without it. */
  landing: string;
  draw: (index: number, frame: EntryFrame, hold: (key: string | null) => void) => ReactNode;
}

/** Entries below each other, of which only those near the window are drawn; arrow keys go from one to the next. */
export function LongList({
  keys,
  usual,
  scroller,
  isOrdered,
  isWhole = true,
  className,
  landing,
  draw,
}: LongListProps) {
  const list = useRef<HTMLOListElement & HTMLUListElement>(null);
  const { boxes, measured } = useStack(keys, usual);
  const { shown, goTo, hold, holding } = useInView(list, boxes, scroller);
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    const target = event.target as HTMLElement;
    const at = keys.indexOf(target.closest<HTMLElement>("[data-key]")?.dataset["key"] ?? "");
    if (step === undefined || at < 0 || event.altKey || event.defaultPrevented || target.closest("[role=menu]")) return;
    event.preventDefault();
    for (let next = at + step; keys[next] !== undefined; next += step) if (goTo(next, landing)) return;
  };
  const List = isOrdered ? "ol" : "ul";
  const count = isWhole ? keys.length : -1;
  return (
    <List
      ref={list}
      className={`ll-long ${className ?? ""}`}
      style={{ height: heightOf(boxes) }}
      onKeyDown={onKeyDown}
      {...holding}
    >
      {shown.map((index) => {
        const box = boxes[index];
        if (!box) return null;
        const frame: EntryFrame = {
          ref: measured,
          style: { top: box.top },
          "data-key": box.key,
          "aria-posinset": index + 1,
          "aria-setsize": count,
        };
        return draw(index, frame, hold);
      })}
    </List>
  );
}
