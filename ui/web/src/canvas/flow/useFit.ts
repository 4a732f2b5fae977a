import { useEffect, type RefObject } from "react";
import { useEditor } from "../../store/editor";
import { useCanvasUi } from "../canvasUi";
import { showAll } from "./showAll";

const UNTIL_MEASURED_MS = 60;

/** Shows all of a workflow when it is opened; where the canvas is out of sight then, as soon as it is seen. */
export function useFit(box: RefObject<HTMLElement | null>): void {
  const opened = useEditor((state) => state.opened);
  const flow = useCanvasUi((ui) => ui.flow);
  useEffect(() => {
    const element = box.current;
    if (!element || !flow) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const watcher = new ResizeObserver(() => {
      if (element.clientWidth === 0) return;
      watcher.disconnect();
      timer = setTimeout(showAll, UNTIL_MEASURED_MS);
    });
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      clearTimeout(timer);
    };
  }, [box, opened, flow]);
}
