/** Where a new node does not cover another one. */

import { GAP_X, GAP_Y, NODE_WIDTH } from "../../graph/edits/arrange";
import { editorStore } from "../../store/editor";
import type { Point } from "../../types";
import { middle, onCanvas, openPopup } from "../canvasUi";
import { currentNode } from "./focusItem";
import { sizeOf } from "./itemCommands";

/** Of a node that is not drawn yet. */
const HEIGHT = 240;

/** Right of the only selected node, else at a place on the canvas; down from there as far as other nodes lie. */
function roomFor(place: Point): Point {
  const beside = currentNode();
  const at = beside === undefined ? undefined : editorStore.getState().graph.nodes[beside]?.at;
  return at && beside !== undefined ? below([at[0] + sizeOf(beside)[0] + GAP_X, at[1]]) : below(place);
}

/** Open the palette in the middle of the view, or at a place in the window, for a node where there is room. */
export function openPalette(place = middle()): void {
  openPopup({ kind: "palette", ...place, flow: roomFor(onCanvas(middle())), wire: null });
}

/** The place itself, or the next one down where a node has room. */
export function below([x, y]: Point): Point {
  const nodes = Object.entries(editorStore.getState().graph.nodes).map(([name, { at }]) => ({
    at,
    size: sizeOf(name),
  }));
  const inWay = nodes
    .filter(({ at, size }) => at[0] < x + NODE_WIDTH + GAP_X / 2 && at[0] + size[0] + GAP_X / 2 > x)
    .sort((a, b) => a.at[1] - b.at[1]);
  for (const { at, size } of inWay) {
    if (at[1] < y + HEIGHT && at[1] + size[1] > y) y = at[1] + size[1] + GAP_Y;
  }
  return [x, y];
}
