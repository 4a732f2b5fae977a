/**
 * Dialogs, menus, popovers and lists of options stand on the browser's own top layer (`showModal`, `popover`): it knows
 * shadow roots, keeps the focus in dialogs, and nothing cuts it off. They and the tabs are 9 kB of loom.js. Libraries that
 * were tried in a shadow root (kB of loom.js, minified), to be tried again when one of these reasons is gone:
 *
 * - Zag.js 1.44.0 works by its `getRootNode`, and the page's tests pass with its combobox, menu and tabs. Of these files'
 *   405 lines it saves 102, for 132 kB, more than the bundle may grow (`MAX_JS_BYTES`); its tabs alone are 25 kB for
 *   14 lines. Popover and Dialog would stay: it knows no top layer.
 * - Ariakit 0.4.40 (150 kB) does not work there: a press outside leaves lists and menus open. Its dialog goes to the body,
 *   away from our styles, and does not give the focus back; kept in the root, it makes nothing inert and Tab leaves it.
 * - Base UI 1.9.0 (271 kB), Headless UI 2.2.10 without tabs' panels (190 kB), Downshift 9.5.0 (43 kB, combobox only): too
 *   large for what they would take over.
 */

import { useEffect, useLayoutEffect, useRef, type HTMLAttributes, type Ref, type RefObject } from "react";

export interface Point {
  x: number;
  y: number;
}

interface PopoverProps extends HTMLAttributes<HTMLDivElement> {
  /** The element it opens beside, or a point in the window. */
  anchor: RefObject<HTMLElement | null> | Point;
  /** Called on a press outside of it and of its anchor. */
  onDismiss: () => void;
  /** At least as wide as the anchor. */
  isWide?: boolean;
  ref?: RefObject<HTMLDivElement | null>;
}

const GAP = 4;
const MARGIN = 8;
const MIN_HEIGHT = 80;
const MAX_HEIGHT = 480;

/** A box in the browser's top layer, open while it is mounted: no parent can cut it off, move or scale it. */
export function Popover({ anchor, onDismiss, isWide = false, ref, className = "", ...rest }: PopoverProps) {
  const own = useRef<HTMLDivElement>(null);
  const box = ref ?? own;
  const dismiss = useRef(onDismiss);
  dismiss.current = onDismiss;

  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    element.showPopover();
    const place = () => placeBeside(element, anchor, isWide);
    place();
    const watcher = new ResizeObserver(place);
    watcher.observe(element);
    window.addEventListener("resize", place);
    window.addEventListener("scroll", place, true);
    return () => {
      watcher.disconnect();
      window.removeEventListener("resize", place);
      window.removeEventListener("scroll", place, true);
      if (element.matches(":popover-open")) element.hidePopover();
    };
  }, [anchor, box, isWide]);

  useEffect(() => {
    const onPress = (event: PointerEvent) => {
      const path = event.composedPath();
      const isInside = box.current !== null && path.includes(box.current);
      const isOnAnchor = "current" in anchor && anchor.current !== null && path.includes(anchor.current);
      if (!isInside && !isOnAnchor) dismiss.current();
    };
    window.addEventListener("pointerdown", onPress, true);
    return () => window.removeEventListener("pointerdown", onPress, true);
  }, [anchor, box]);

  return (
    <div
      {...rest}
      ref={box as Ref<HTMLDivElement>}
      popover="manual"
      className={`ll-popover nodrag nopan nowheel ${className}`}
    />
  );
}

function placeBeside(element: HTMLElement, anchor: PopoverProps["anchor"], isWide: boolean): void {
  const rect = "current" in anchor ? anchor.current?.getBoundingClientRect() : new DOMRect(anchor.x, anchor.y, 0, 0);
  if (!rect) return;
  const below = window.innerHeight - rect.bottom - GAP - MARGIN;
  const above = rect.top - GAP - MARGIN;
  if (isWide) element.style.minWidth = `${rect.width}px`;
  const wanted = Math.min(element.scrollHeight + 2, MAX_HEIGHT);
  const goesUp = wanted > below && above > below;
  const most = Math.min(Math.max(goesUp ? above : below, MIN_HEIGHT), MAX_HEIGHT);
  element.style.maxHeight = `${most}px`;
  const height = Math.min(wanted, most);
  element.style.top = `${goesUp ? rect.top - GAP - height : rect.bottom + GAP}px`;
  const left = Math.min(rect.left, window.innerWidth - element.offsetWidth - MARGIN);
  element.style.left = `${Math.max(left, MARGIN)}px`;
}
