import { useEffect } from "react";
import { canvasUi, useCanvasUi } from "../canvasUi";

const SHOWN_MS = 5000;
const NOTE_WIDTH = 284;

/** Why a wire was refused, for a moment where it was dropped. */
export function RefusalNote() {
  const refusal = useCanvasUi((ui) => ui.refusal);
  useEffect(() => {
    if (!refusal) return;
    const timer = setTimeout(() => canvasUi.setState({ refusal: null }), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [refusal]);
  const rect = canvasUi.getState().box?.getBoundingClientRect();
  if (!refusal || !rect) return null;
  const left = Math.min(refusal.x - rect.left + 12, Math.max(rect.width - NOTE_WIDTH, 8));
  return (
    <div className="ll-refusal ll-refusal-note" style={{ left, top: refusal.y - rect.top + 12 }}>
      {refusal.text}
    </div>
  );
}
