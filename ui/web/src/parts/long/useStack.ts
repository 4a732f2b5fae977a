import { useCallback, useEffect, useMemo, useReducer, useRef } from "react";
import { stacked, type Box } from "./boxes";

interface Stack {
  boxes: readonly Box[];
  /** The `ref` of each entry that is drawn; it has its key as `data-key`. */
  measured: (entry: HTMLElement | null) => (() => void) | undefined;
}

/** Entries of their own heights below each other; those that were not drawn yet count as `usual` px high. */
export function useStack(keys: readonly string[], usual: number): Stack {
  const heights = useRef(new Map<string, number>()).current;
  const [version, changed] = useReducer((count: number) => count + 1, 0);
  const watcher = useRef<ResizeObserver>(undefined);
  watcher.current ??= new ResizeObserver((entries) => {
    let isNew = false;
    for (const { target, borderBoxSize } of entries) {
      const key = (target as HTMLElement).dataset["key"];
      const height = borderBoxSize[0]?.blockSize ?? 0;
      if (!key || height === 0 || heights.get(key) === height) continue;
      heights.set(key, height);
      isNew = true;
    }
    if (isNew) changed();
  });
  useEffect(() => () => watcher.current?.disconnect(), []);

  const measured = useCallback((entry: HTMLElement | null) => {
    if (!entry) return undefined;
    watcher.current?.observe(entry);
    return () => watcher.current?.unobserve(entry);
  }, []);
  const kept = useRef(keys);
  if (kept.current.length !== keys.length || keys.some((key, at) => key !== kept.current[at])) kept.current = keys;
  const same = kept.current;
  const boxes = useMemo(() => stacked(same, (key) => heights.get(key) ?? usual), [same, usual, heights, version]);
  return { boxes, measured };
}
