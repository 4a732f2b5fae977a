import { useUpdateNodeInternals } from "@xyflow/react";
import { useEffect, useRef } from "react";

/** Tells React Flow to look for a node's handles again when they came, went or moved. */
export function useMovedHandles(id: string, shape: string): void {
  const update = useUpdateNodeInternals();
  const known = useRef(shape);
  useEffect(() => {
    if (known.current === shape) return;
    known.current = shape;
    update(id);
  }, [id, shape, update]);
}
