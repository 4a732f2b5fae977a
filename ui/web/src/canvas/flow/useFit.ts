import { useEffect, type RefObject } from "react";
import { arrangeGrouped } from "../../graph/edits";
import { isUnplaced } from "../../graph/file/workflowFile";
import { itemKey } from "../../graph/items";
import { editorStore, settle, useEditor } from "../../store/editor";
import { viewOf } from "../../store/tabs";
import { canvasUi, useCanvasUi } from "../canvasUi";
import { reveal } from "../commands/focusItem";
import { sizeOf } from "../commands/itemCommands";
import { readableRoom, showStart } from "./showAll";

const TRIES = 60;
/** Nodes of the workflow before may have had the same names: their sizes hold until those of the new ones are known. */
const UNTIL_MEASURED_MS = 60;

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
    let frame = 0;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const start = (): void => begin((next) => (frame = next));
    const isFirst = !flow.getNodes().some((node) => node.measured?.height);
    const watcher = new ResizeObserver(() => {
      if (element.clientWidth === 0) return;
      watcher.disconnect();
      const view = viewOf(tab, inside);
      if (view) void flow.setViewport(view);
      else if (isFirst) frame = requestAnimationFrame(start);
      else timer = setTimeout(start, UNTIL_MEASURED_MS);
    });
    watcher.observe(element);
    return () => {
      watcher.disconnect();
      cancelAnimationFrame(frame);
      clearTimeout(timer);
    };
  }, [box, opened, tab, inside, flow]);
}

/** Once all is measured; a workflow without places is then arranged by the sizes that its nodes turned out to have.
`note` hears of each frame that is waited for. */
function begin(note: (frame: number) => void, tries = TRIES): void {
  const { graph, inside } = editorStore.getState();
  const nodes = canvasUi.getState().flow?.getNodes() ?? [];
  const sizes = new Map(nodes.map((node) => [node.id, node.measured?.height ?? node.initialHeight]));
  const isKnown = Object.keys(graph.nodes).every((name) => sizes.get(itemKey("node", name)) !== undefined);
  if (!isKnown && tries > 0) {
    note(requestAnimationFrame(() => begin(note, tries - 1)));
    return;
  }
  if (isUnplaced(graph) && inside.length === 0) settle(arrangeGrouped(graph, sizeOf, readableRoom()));
  note(
    requestAnimationFrame(() => {
      showStart();
      const [key = ""] = editorStore.getState().selection;
      if (key) reveal(key); // it was opened at this one
    }),
  );
}
