import { useEffect, type RefObject } from "react";
import { useEditor } from "../../store/editor";
import { viewOf } from "../../store/tabs";
import { canvasUi, useCanvasUi } from "../canvasUi";
import { showAll } from "./showAll";

const UNTIL_MEASURED_MS = 60;

/** Shows all of a workflow when it is opened, and what was seen of it when its tab is shown again; where the canvas is out of sight then, as soon as it is seen. */
export function useFit(box: RefObject<HTMLElement | null>): void {
  const opened = useEditor((state) => state.opened);
  const tab = useEditor((state) => state.draftKey);
  const flow = useCanvasUi((ui) => ui.flow);
  useEffect(() => {
    const element = box.current;
    canvasUi.setState({ popup: null, refusal: null, wire: null, renaming: "", fresh: null });
    if (!element || !flow) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const watcher = new ResizeObserver(() => {
      if (element.clientWidth === 0) return;
      watcher.disconnect();
      const view = viewOf(tab);
      if (view) void flow.setViewport(view);
      else timer = setTimeout(showAll, UNTIL_MEASURED_MS);
    });
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      clearTimeout(timer);
    };
  }, [box, opened, tab, flow]);
}
