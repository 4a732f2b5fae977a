import { useMemo, type PointerEvent } from "react";
import { editorStore, select } from "../../store/editor";
import { canvasUi, onCanvas, openPopup } from "../canvasUi";
import { targetOf } from "./pointer";

const HOLD_MS = 550;
const SLOP = 10;

/** A finger that rests opens the menu, as the right mouse button does. */
export function useLongPress() {
  return useMemo(makeHandlers, []);
}

function makeHandlers() {
  let timer = 0;
  let start = { x: 0, y: 0 };
  const stop = () => window.clearTimeout(timer);
  return {
    onPointerDown: (event: PointerEvent<HTMLElement>) => {
      stop();
      const { target } = event;
      if (event.pointerType === "mouse" || !event.isPrimary || !(target instanceof Element)) return;
      if (target.closest("button, input, textarea, select, [popover], .react-flow__handle, .ll-outline")) return;
      start = { x: event.clientX, y: event.clientY };
      timer = window.setTimeout(() => openAt(target, start), HOLD_MS);
    },
    onPointerMove: (event: PointerEvent<HTMLElement>) => {
      if (Math.hypot(event.clientX - start.x, event.clientY - start.y) > SLOP) stop();
    },
    onPointerUp: stop,
    onPointerCancel: stop,
  };
}

function openAt(target: Element, place: { x: number; y: number }): void {
  if (canvasUi.getState().popup) return;
  const item = target.closest<HTMLElement>(".react-flow__node, .react-flow__edge");
  const key = item?.dataset.id ?? "";
  if (key && !editorStore.getState().selection.has(key)) select([key]);
  openPopup({ kind: "menu", ...place, flow: onCanvas(place), target: targetOf(key, { target }) });
}
