import { useStore } from "@xyflow/react";
import { useEffect } from "react";
import { canvasUi } from "../canvasUi";

const READABLE_ZOOM = 0.4;
/** Below it not even the words in a node can be read. */
const TEXT_ZOOM = 0.25;
/** So few nodes draw their fields at any zoom. */
const FEW = 30;

/** Keeps `isNear` and `isTiny`: fields of many nodes are drawn only where they can be read. */
export function useNearness(): void {
  const isNear = useStore((state) => state.transform[2] >= READABLE_ZOOM || state.nodeLookup.size <= FEW);
  const isTiny = useStore((state) => state.transform[2] < TEXT_ZOOM && state.nodeLookup.size > FEW);
  useEffect(() => canvasUi.setState({ isNear, isTiny }), [isNear, isTiny]);
}
