import { useStore } from "@xyflow/react";
import { useEffect } from "react";
import { canvasUi, useCanvasUi } from "../canvasUi";
import { TITLES_ZOOM } from "./showAll";

/** Below it not even titles of many nodes have room. */
const TINY_ZOOM = 0.25;
/** So few nodes draw their fields at any zoom. */
const FEW = 30;
/** Titles grow against the zoom in steps: each draws all of them anew. */
const STEP = 1.25;

/** Keeps how nodes are drawn: fields of many nodes only where they can be read, from afar titles alone. What has come
nearer is drawn so once the view rests: until then it is what was there, larger. */
export function useNearness(): void {
  const isNear = useStore((state) => state.transform[2] >= TITLES_ZOOM || state.nodeLookup.size <= FEW);
  const isTiny = useStore((state) => state.transform[2] < TINY_ZOOM && state.nodeLookup.size > FEW);
  const titleZoom = useStore((state) => titleZoomAt(state.transform[2]));
  const isMoving = useCanvasUi((ui) => ui.isMoving);
  useEffect(() => {
    const isLeft = canvasUi.getState().isNear && !isNear; // all that comes into view would be drawn whole
    if (!isMoving || isLeft) canvasUi.setState({ isNear, isTiny, titleZoom });
  }, [isNear, isTiny, titleZoom, isMoving]);
}

/** 0 where nodes are drawn whole; else the largest step up to the zoom. */
function titleZoomAt(zoom: number): number {
  if (zoom >= TITLES_ZOOM) return 0;
  return TITLES_ZOOM * STEP ** Math.floor(Math.log(zoom / TITLES_ZOOM) / Math.log(STEP));
}
