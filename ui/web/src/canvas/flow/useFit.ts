import { useEffect, type RefObject } from "react";
import { arrangeGrouped } from "../../graph/edits";
import { isUnplaced } from "../../graph/file/workflowFile";
import { editorStore, settle, useEditor } from "../../store/editor";
import { viewOf } from "../../store/tabs";
import { canvasUi, useCanvasUi } from "../canvasUi";
import { sizeOf } from "../commands/itemCommands";
import { readableRoom, showStart } from "./showAll";

const UNTIL_MEASURED_MS = 60;
const TRIES = 60;

/** Shows a workflow from its beginning when it is opened, and what was seen of it when its tab is shown again; where the
canvas is out of sight then, as soon as it is seen. */
export function useFit(box: RefObject<HTMLElement | null>): void {
  const opened = useEditor((state) => state.opened);
  const tab = useEditor((state) => state.draftKey);
  const inside = useEditor((state) => state.inside);
  const flow = useCanvasUi((ui) => ui.flow);
  useEffect(() => {
    const element = box.current;
    canvasUi.setState({ popup: null, refusal: null, wire: null, renaming: "", fresh: null });
    if (!element || !flow) return;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const watcher = new ResizeObserver(() => {
      if (element.clientWidth === 0) return;
      watcher.disconnect();
      const view = viewOf(tab, inside);
      if (view) void flow.setViewport(view);
      else timer = setTimeout(() => begin(), UNTIL_MEASURED_MS);
    });
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      clearTimeout(timer);
    };
  }, [box, opened, tab, inside, flow]);
}

/** A workflow without places is arranged by the sizes that its nodes turned out to have. */
function begin(tries = TRIES): void {
  const { graph, inside } = editorStore.getState();
  const nodes = canvasUi.getState().flow?.getNodes() ?? [];
  const isKnown = nodes.every((node) => node.measured?.height !== undefined || node.initialHeight !== undefined);
  if (!isKnown && tries > 0) {
    requestAnimationFrame(() => begin(tries - 1));
    return;
  }
  if (isUnplaced(graph) && inside.length === 0) settle(arrangeGrouped(graph, sizeOf, readableRoom()));
  requestAnimationFrame(() => showStart());
}
