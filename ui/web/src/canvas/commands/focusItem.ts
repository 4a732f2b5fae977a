/** Moving the keyboard's focus and the view to things on the canvas. */

import { itemKey, parseItem } from "../../graph/items";
import { sourcesOf } from "../../graph/order";
import { isLink, splitTarget } from "../../graph/values";
import { editorStore, select } from "../../store/editor";
import type { EditorGraph } from "../../types";
import { canvasUi } from "../canvasUi";

const TRIES = 30;
const READABLE_ZOOM = 0.45;
const CLOSE_ZOOM = 0.8;

/** Put the focus on an item as soon as it is drawn (until then it is hidden), unless a popup has opened meanwhile. */
export function focusItem(key: string, tries = TRIES): void {
  requestAnimationFrame(() => {
    if (canvasUi.getState().popup) return;
    const found = canvasUi.getState().box?.querySelector<HTMLElement>(`[data-id="${CSS.escape(key)}"]`);
    found?.focus({ preventScroll: true });
    if (!found?.matches(":focus") && tries > 0) focusItem(key, tries - 1);
  });
}

/** Where a comment's or a node's text is written; null where it has none, or shows none from afar. */
export function textField(key: string): HTMLTextAreaElement | null {
  return canvasUi.getState().box?.querySelector(`[data-id="${CSS.escape(key)}"] textarea`) ?? null;
}

/** Select one item, bring it into view and put the focus on it. */
export function showItem(key: string): void {
  select([key]);
  reveal(key, READABLE_ZOOM);
  focusItem(key);
}

/** Select what was just made, bring it into view once it is drawn, and put the focus on it. */
export function showNew(key: string): void {
  select([key]);
  revealSoon(key);
  focusItem(key);
}

/** As soon as it is drawn, and the canvas in sight. */
function revealSoon(key: string, tries = TRIES): void {
  requestAnimationFrame(() => {
    const { flow, box } = canvasUi.getState();
    if (box?.clientWidth && flow?.getInternalNode(key)?.measured.height) reveal(key);
    else if (tries > 0) revealSoon(key, tries - 1);
  });
}

/** Move the view so that the item is seen, at least at a zoom; nothing moves where it is seen already. */
export function reveal(key: string, zoom = 0): void {
  const { flow, box } = canvasUi.getState();
  const node = flow?.getInternalNode(key);
  if (!flow || !box || !node) return;
  const { x, y } = node.internals.positionAbsolute;
  const { width = 0, height = 0 } = node.measured;
  const [start, end] = [
    flow.flowToScreenPosition({ x, y }),
    flow.flowToScreenPosition({ x: x + width, y: y + height }),
  ];
  const seen = box.getBoundingClientRect();
  const isSeen = start.x >= seen.left && start.y >= seen.top && end.x <= seen.right && end.y <= seen.bottom;
  if (!isSeen || flow.getZoom() < zoom)
    void flow.setCenter(x + width / 2, y + height / 2, { zoom: Math.max(flow.getZoom(), 0.6), duration: 150 });
}

/** Move the view so that the item is in its middle, large enough to be read. */
export function centre(key: string): void {
  const { flow } = canvasUi.getState();
  const node = flow?.getInternalNode(key);
  if (!flow || !node) return;
  const { x, y } = node.internals.positionAbsolute;
  const { width = 0, height = 0 } = node.measured;
  void flow.setCenter(x + width / 2, y + height / 2, { zoom: Math.max(flow.getZoom(), CLOSE_ZOOM), duration: 150 });
}

export type Direction = "ArrowLeft" | "ArrowRight" | "ArrowUp" | "ArrowDown";

/** The node that a wire leads to: left to what feeds it, right to what it feeds, up and down to its neighbours. */
export function alongWire(graph: EditorGraph, name: string, direction: Direction): string | undefined {
  if (direction === "ArrowLeft") return sourcesOf(graph, name)[0];
  if (direction === "ArrowRight") return usersOf(graph, name)[0];
  const sources = sourcesOf(graph, name);
  const siblings = sources.length ? usersOf(graph, sources[0] ?? "") : Object.keys(graph.nodes);
  const inRow = siblings.sort((a, b) => (graph.nodes[a]?.at[1] ?? 0) - (graph.nodes[b]?.at[1] ?? 0));
  return inRow[inRow.indexOf(name) + (direction === "ArrowUp" ? -1 : 1)];
}

function usersOf(graph: EditorGraph, name: string): string[] {
  const isUser = (node: EditorGraph["nodes"][string]) =>
    Object.values(node.inputs).some((value) => isLink(value) && splitTarget(value.from)[0] === name);
  return Object.entries(graph.nodes).flatMap(([user, node]) => (isUser(node) ? [user] : []));
}

/** The node that has the focus, or the only selected one. */
export function currentNode(): string | undefined {
  const keys = [...editorStore.getState().selection];
  const item = keys.length === 1 ? parseItem(keys[0] ?? "") : null;
  return item?.kind === "node" ? item.id : undefined;
}

export function focusNode(name: string): void {
  showItem(itemKey("node", name));
}
