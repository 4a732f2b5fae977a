/** The view goes to what a run has made, once it is made: unless people have moved it, or edited, while it was under way. */

import { itemKey } from "../../graph/items";
import { editorStore } from "../../store/editor";
import { isOver, liveStore } from "../../store/live";
import type { Run } from "../../types";
import { canvasUi } from "../canvasUi";

/** Around what is shown, px. */
const MARGIN = 12;
/** Frames until lanes and messages have taken their room. */
const FRAMES = 4;

/** To be called when a run is begun that the canvas shows. */
export function showWhenMade(id: string): void {
  const before = viewNow();
  const end = liveStore.subscribe(look);
  look();

  function look(): void {
    const { runs, watched } = liveStore.getState();
    const run = runs[id];
    if (watched !== id || (run && isOver(run.state))) end();
    else return;
    if (run?.state === "done" && watched === id) afterFrames(FRAMES, () => viewNow() === before && showMade(run));
  }
}

/** What is seen of which graph. */
function viewNow(): string {
  const { whole, inside, draftKey } = editorStore.getState();
  const { x, y, zoom } = canvasUi.getState().flow?.getViewport() ?? { x: 0, y: 0, zoom: 1 };
  if (whole !== seen.graph) seen = { graph: whole, number: seen.number + 1 };
  return [draftKey, ...inside, seen.number, x, y, zoom].join(" ");
}

let seen = { graph: editorStore.getState().whole, number: 0 };

function afterFrames(count: number, act: () => void): void {
  if (count === 0) act();
  else requestAnimationFrame(() => afterFrames(count - 1, act));
}

function showMade(run: Run): void {
  const { flow, box } = canvasUi.getState();
  const key = nodeOf(run);
  const node = key ? flow?.getInternalNode(key) : undefined;
  const element = key && box?.querySelector(`[data-id="${CSS.escape(key)}"]`);
  if (!flow || !box?.clientWidth || !node || (element && isSeen(element, box))) return;
  const { x, y } = node.internals.positionAbsolute;
  const { width = 0, height = 0 } = node.measured;
  const fits = Math.min((box.clientWidth - 2 * MARGIN) / width, (box.clientHeight - 2 * MARGIN) / height);
  void flow.setCenter(x + width / 2, y + height / 2, { zoom: Math.min(flow.getZoom(), fits), duration: 150 });
}

/** The node on the canvas in which the last result is shown; "" for none. */
function nodeOf({ nodes }: Run): string {
  const made = Object.entries(nodes).filter(([, { files }]) => files.length > 0);
  const place = editorStore
    .getState()
    .inside.map((name) => `${name}/`)
    .join("");
  const here = made.map(([name]) => name).filter((name) => name.startsWith(place));
  const [name = ""] = here.at(-1)?.slice(place.length).split("/") ?? [];
  return name && itemKey("node", name);
}

/** Whole, and not below the map. */
function isSeen(element: Element, box: Element): boolean {
  const [node, room] = [element.getBoundingClientRect(), box.getBoundingClientRect()];
  const map = box.querySelector(".ll-map")?.getBoundingClientRect();
  const isIn = node.left >= room.left && node.top >= room.top && node.right <= room.right && node.bottom <= room.bottom;
  return isIn && !(map && map.width > 0 && node.right > map.left && node.bottom > map.top);
}
