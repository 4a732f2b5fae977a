import { useUpdateNodeInternals } from "@xyflow/react";
import { useEffect, useRef } from "react";

type Update = ReturnType<typeof useUpdateNodeInternals>;

/** Nodes whose handles moved since the last look. */
const waiting = new Set<string>();

/** Tells React Flow to look for a node's handles again when they came, went or moved. */
export function useMovedHandles(id: string, shape: string): void {
  const update = useUpdateNodeInternals();
  const known = useRef(shape);
  useEffect(() => {
    if (known.current === shape) return;
    known.current = shape;
    look(id, update);
  }, [id, shape, update]);
}

/** One look at all nodes that changed together: a look for each would lay out the page for each. */
function look(id: string, update: Update): void {
  waiting.add(id);
  if (waiting.size > 1) return;
  queueMicrotask(() => {
    update([...waiting]);
    waiting.clear();
  });
}
