import { useLayoutEffect, useState, type RefObject } from "react";
import type { Size } from "./zoom";

/** The size of an element as it is now; nothing by nothing before it is drawn. */
export function useSize(box: RefObject<HTMLElement | null>): Size {
  const [size, setSize] = useState<Size>({ width: 0, height: 0 });
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const measure = () => setSize({ width: element.clientWidth, height: element.clientHeight });
    measure();
    const watcher = new ResizeObserver(measure);
    watcher.observe(element);
    return () => watcher.disconnect();
  }, [box]);
  return size;
}
