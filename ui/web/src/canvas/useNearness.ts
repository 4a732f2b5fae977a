import { useStore } from "@xyflow/react";
import { useEffect } from "react";
import { canvasUi } from "./uiStore";

const READABLE_ZOOM = 0.4;
/** So few nodes draw their fields at any zoom. */
const FEW = 30;

/** Keeps `isNear`: fields of many nodes are drawn only where they can be read. */
export function useNearness(): void {
  const isNear = useStore((state) => state.transform[2] >= READABLE_ZOOM || state.nodeLookup.size <= FEW);
  useEffect(() => canvasUi.setState({ isNear }), [isNear]);
}
