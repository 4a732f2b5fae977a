import { useEffect, useRef, type KeyboardEvent, type PointerEvent, type ReactNode } from "react";
import { t } from "../../i18n";
import { IconButton } from "../../parts/IconButton";
import { useSize } from "./useSize";
import { WHOLE, actualSize, panned, place, zoomed, type Placement, type Size, type View } from "./zoom";

interface StageProps {
  /** What is shown, in words. */
  label: string;
  picture: Size;
  view: View;
  onView: (view: View) => void;
  hasTools?: boolean;
  children: (placement: Placement) => ReactNode;
}

const STEP = 1.25;
const PAN = 60;
const WHEEL = 0.0015;

/** A place to look at a picture closely: wheel, pinch, drag, double click and keys zoom and move it. */
export function Stage({ label, picture, view, onView, hasTools = true, children }: StageProps) {
  const box = useRef<HTMLDivElement>(null);
  const stage = useSize(box);
  const placement = place(view, picture, stage);
  const pointers = useRef(new Map<number, { x: number; y: number }>());
  const now = useRef({ view, picture, stage, onView });
  now.current = { view, picture, stage, onView };

  const zoomBy = (factor: number, at?: { x: number; y: number }) =>
    onView(zoomed(view, factor, { at, picture, stage }));

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    // React listens to the wheel passively, and then the page would scroll as well.
    const onWheel = (event: WheelEvent) => {
      event.preventDefault();
      const { view, picture, stage, onView } = now.current;
      const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
      const at = pointIn(element, event);
      onView(zoomed(view, Math.exp(-event.deltaY * lines * WHEEL), { at, picture, stage }));
    };
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  }, []);

  const onPointerDown = (event: PointerEvent<HTMLDivElement>) => {
    if (event.button !== 0) return;
    event.currentTarget.setPointerCapture(event.pointerId);
    pointers.current.set(event.pointerId, pointIn(event.currentTarget, event));
  };
  const onPointerMove = (event: PointerEvent<HTMLDivElement>) => {
    const from = pointers.current.get(event.pointerId);
    if (!from) return;
    const to = pointIn(event.currentTarget, event);
    const other = [...pointers.current].find(([id]) => id !== event.pointerId)?.[1];
    pointers.current.set(event.pointerId, to);
    if (!other) onView(panned(view, to.x - from.x, to.y - from.y, picture, stage));
    else zoomBy(distance(to, other) / Math.max(distance(from, other), 1), middle(to, other));
  };
  const onPointerUp = (event: PointerEvent) => pointers.current.delete(event.pointerId);

  const onKeyDown = (event: KeyboardEvent) => {
    const moves: Record<string, [number, number]> = {
      ArrowLeft: [PAN, 0],
      ArrowRight: [-PAN, 0],
      ArrowUp: [0, PAN],
      ArrowDown: [0, -PAN],
    };
    const move = event.shiftKey ? moves[event.key] : undefined;
    if (move) onView(panned(view, ...move, picture, stage));
    else if (event.key === "+" || event.key === "=") zoomBy(STEP);
    else if (event.key === "-") zoomBy(1 / STEP);
    else if (event.key === "0") onView(WHOLE);
    else if (event.key === "1") onView(actualSize(view, picture, stage));
    else return;
    event.preventDefault();
    event.stopPropagation();
  };

  return (
    <div className="ll-stage">
      <div
        ref={box}
        className="ll-stage-room"
        role="group"
        tabIndex={0}
        aria-label={label}
        title={t("gallery.stage_keys")}
        onPointerDown={onPointerDown}
        onPointerMove={onPointerMove}
        onPointerUp={onPointerUp}
        onPointerCancel={onPointerUp}
        onDoubleClick={(event) => (view.zoom === 1 ? zoomBy(2.5, pointIn(event.currentTarget, event)) : onView(WHOLE))}
        onKeyDown={onKeyDown}
      >
        {stage.width > 0 && children(placement)}
      </div>
      {hasTools && (
        <div className="ll-stage-tools" role="group" aria-label={t("gallery.zoom")}>
          <IconButton icon="zoom-out" label={t("gallery.zoom_out")} onClick={() => zoomBy(1 / STEP)} />
          <button
            type="button"
            className="ll-stage-scale"
            aria-label={t("gallery.actual_size", { percent: percent(placement) })}
            title={t("gallery.actual_size", { percent: percent(placement) })}
            onClick={() => onView(actualSize(view, picture, stage))}
          >
            {percent(placement)} %
          </button>
          <IconButton icon="zoom-in" label={t("gallery.zoom_in")} onClick={() => zoomBy(STEP)} />
          <IconButton icon="fit" label={t("gallery.whole")} onClick={() => onView(WHOLE)} />
        </div>
      )}
    </div>
  );
}

function percent({ scale }: Placement): number {
  return Math.round(scale * 100);
}

function pointIn(element: Element, event: { clientX: number; clientY: number }): { x: number; y: number } {
  const rect = element.getBoundingClientRect();
  return { x: event.clientX - rect.left, y: event.clientY - rect.top };
}

function distance(a: { x: number; y: number }, b: { x: number; y: number }): number {
  return Math.hypot(a.x - b.x, a.y - b.y);
}

function middle(a: { x: number; y: number }, b: { x: number; y: number }): { x: number; y: number } {
  return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
}
