/** The editor's graph as React Flow wants it, and React Flow's changes as edits of the graph. */

import type { EdgeChange, NodeChange, OnNodeDrag } from "@xyflow/react";
import { useCallback, useMemo, useRef, useState } from "react";
import { moveGrouped, resize } from "../../graph/edits";
import { groupAround, groupOf, together } from "../../graph/edits/members";
import { parseItem } from "../../graph/items";
import { t } from "../../i18n";
import { edit, editorStore, select, useEditor } from "../../store/editor";
import type { Point } from "../../types";
import { canvasUi, say } from "../canvasUi";
import { sizeOf } from "../commands/itemCommands";
import { flowEdges, type WireEdge } from "./flowEdges";
import { flowNodes, type CanvasNode, type Overlay, type Size } from "./flowNodes";

const NOTHING: Overlay = { at: new Map(), size: new Map(), measured: new Map() };

/** What moves along with a dragged group, by the group's key. */
type Passengers = Map<string, { start: Point; items: Record<string, Point> }>;

export function useFlow() {
  const graph = useEditor((state) => state.graph);
  const catalog = useEditor((state) => state.catalog);
  const selection = useEditor((state) => state.selection);
  const [overlay, setOverlay] = useState(NOTHING);
  const lastNodes = useRef<readonly CanvasNode[]>([]);
  const lastEdges = useRef<readonly WireEdge[]>([]);
  const passengers = useRef<Passengers>(new Map());

  const nodes = useMemo(
    () => (lastNodes.current = flowNodes(graph, catalog, selection, overlay, lastNodes.current)),
    [graph, catalog, selection, overlay],
  );
  const edges = useMemo(
    () => (lastEdges.current = flowEdges(graph, catalog, selection, lastEdges.current)),
    [graph, catalog, selection],
  );

  const onNodesChange = useCallback((changes: NodeChange<CanvasNode>[]) => {
    choose(changes);
    const moved = placesOf(changes, passengers.current);
    const sizes = sizesOf(changes);
    const isOver = changes.some((change) => change.type === "position" && !change.dragging);
    if (isOver) drop(moved);
    else if (moved.size) showJoining(moved);
    for (const [key, size] of sizes.settled) {
      edit(t("canvas.resize"), (last) => resize(last, key, [Math.round(size.width), Math.round(size.height)]));
    }
    if (moved.size + sizes.held.size + sizes.settled.size + sizes.measured.size === 0) return;
    setOverlay((old) => ({
      at: isOver ? NOTHING.at : merged(old.at, moved),
      size: sizes.settled.size ? NOTHING.size : merged(old.size, sizes.held),
      measured: merged(old.measured, sizes.measured),
    }));
  }, []);

  const onEdgesChange = useCallback((changes: EdgeChange<WireEdge>[]) => choose(changes), []);

  const onNodeDragStart: OnNodeDrag<CanvasNode> = useCallback((_event, _node, dragged) => {
    const keys = new Set(dragged.map((node) => node.id));
    passengers.current = new Map(
      dragged.filter((node) => node.type === "box").map((node) => [node.id, load(node, keys)]),
    );
  }, []);

  return {
    nodes: nodes as CanvasNode[],
    edges: edges as WireEdge[],
    isHeld: overlay.at.size + overlay.size.size > 0,
    onNodesChange,
    onEdgesChange,
    onNodeDragStart,
  };
}

function load(group: CanvasNode, dragged: ReadonlySet<string>): { start: Point; items: Record<string, Point> } {
  const start: Point = [group.position.x, group.position.y];
  const all = together(editorStore.getState().graph, { [group.id]: start }, sizeOf);
  const items = Object.fromEntries(Object.entries(all).filter(([key]) => !dragged.has(key)));
  return { start, items };
}

/** What was dragged into a group belongs to it from then on; what was dragged out does not. */
function drop(places: ReadonlyMap<string, Point>): void {
  const { joins, leaves } = canvasUi.getState().joining;
  const { groups } = editorStore.getState().graph;
  const titleOf = (id: string | null): string => groups.find((group) => group.id === id)?.title || t("canvas.group");
  edit(t("canvas.move"), (last) => moveGrouped(last, Object.fromEntries(places), sizeOf));
  if (joins !== null) say(t("canvas.joined", { group: titleOf(joins) }));
  else if (leaves !== null) say(t("canvas.left", { group: titleOf(leaves) }));
  setJoining(null, null);
}

/** While something is dragged alone, its group and the one that it lies over say what letting go would do. */
function showJoining(places: ReadonlyMap<string, Point>): void {
  const { graph } = editorStore.getState();
  const [key, at] = [...places][0] ?? [];
  if (graph.groups.length === 0 || places.size !== 1 || !key || !at || parseItem(key)?.kind === "group") return;
  const [to, from] = [groupAround(graph, key, at, sizeOf), groupOf(graph, key, sizeOf)];
  setJoining(to === from ? null : to, to === from ? null : from);
}

function setJoining(joins: string | null, leaves: string | null): void {
  const old = canvasUi.getState().joining;
  if (old.joins !== joins || old.leaves !== leaves) canvasUi.setState({ joining: { joins, leaves } });
}

function merged<T>(old: ReadonlyMap<string, T>, added: ReadonlyMap<string, T>): ReadonlyMap<string, T> {
  return added.size ? new Map([...old, ...added]) : old;
}

/** Where things are dragged to, groups with all that lies in them. */
function placesOf(changes: readonly NodeChange<CanvasNode>[], passengers: Passengers): Map<string, Point> {
  const places = new Map<string, Point>();
  for (const change of changes) {
    if (change.type !== "position" || !change.position) continue;
    const at: Point = [Math.round(change.position.x), Math.round(change.position.y)];
    places.set(change.id, at);
    const group = passengers.get(change.id);
    if (!group) continue;
    const [dx, dy] = [at[0] - group.start[0], at[1] - group.start[1]];
    for (const [key, [x, y]] of Object.entries(group.items)) places.set(key, [x + dx, y + dy]);
  }
  return places;
}

interface Sizes {
  /** While a corner is held. */
  held: Map<string, Size>;
  settled: Map<string, Size>;
  measured: Map<string, Size>;
}

function sizesOf(changes: readonly NodeChange<CanvasNode>[]): Sizes {
  const sizes: Sizes = { held: new Map(), settled: new Map(), measured: new Map() };
  for (const change of changes) {
    if (change.type !== "dimensions") continue;
    const kind = change.resizing === undefined ? sizes.measured : change.resizing ? sizes.held : sizes.settled;
    const size = change.dimensions ?? sizes.held.get(change.id);
    if (size) kind.set(change.id, size);
  }
  return sizes;
}

/** React Flow's selection as the editor's. */
function choose(changes: readonly (NodeChange<CanvasNode> | EdgeChange<WireEdge>)[]): void {
  const keys = new Set(editorStore.getState().selection);
  let isChanged = false;
  for (const change of changes) {
    if (change.type !== "select") continue;
    isChanged = true;
    if (change.selected) keys.add(change.id);
    else keys.delete(change.id);
  }
  if (isChanged) select(keys);
}
