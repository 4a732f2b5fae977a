/** React Flow's nodes made from the editor's graph: what did not change keeps its object and is not drawn again. */

import type { Node } from "@xyflow/react";
import { NODE_WIDTH } from "../../graph/edits/arrange";
import { specFor, titleOf } from "../../graph/catalog";
import { itemKey } from "../../graph/items";
import type { Catalog, EditorGraph, EditorNode, Group, Note, Point, Reroute } from "../../types";
import { usedOutputs } from "./flowEdges";
import { estimate } from "./handleEstimate";

export type CardNode = Node<{ name: string; node: EditorNode }, "card">;
export type GroupNode = Node<{ group: Group }, "box">;
export type NoteNode = Node<{ note: Note }, "note">;
export type RerouteNode = Node<{ id: string; reroute: Reroute }, "reroute">;
export type CanvasNode = CardNode | GroupNode | NoteNode | RerouteNode;

export interface Size {
  width: number;
  height: number;
}

/** What is true on the canvas only until the hand lets go, and what the browser measured. */
export interface Overlay {
  at: ReadonlyMap<string, Point>;
  size: ReadonlyMap<string, Size>;
  measured: ReadonlyMap<string, Size>;
}

/** From here on only what is in sight is in the page. */
export const MANY = 80;

/** The nodes for a graph, reusing those of the last one. */
export function flowNodes(
  graph: EditorGraph,
  catalog: Catalog,
  selection: ReadonlySet<string>,
  overlay: Overlay,
  last: readonly CanvasNode[],
): readonly CanvasNode[] {
  const old = new Map(last.map((node) => [node.id, node]));
  const next: CanvasNode[] = [];
  const isMany = Object.keys(graph.nodes).length > MANY;
  const put = <T extends CanvasNode>(id: string, at: Point, type: T["type"], data: T["data"], rest: Partial<T>) => {
    const [x, y] = overlay.at.get(id) ?? at;
    const made = {
      ...rest,
      id,
      type,
      position: { x, y },
      selected: selection.has(id),
      measured: overlay.measured.get(id),
      data,
    } as unknown as T;
    const kept = old.get(id);
    next.push(
      kept && isSame(kept, made) ? kept : ({ ...made, data: kept && isEqual(kept.data, data) ? kept.data : data } as T),
    );
  };
  for (const group of graph.groups) {
    const size = overlay.size.get(itemKey("group", group.id));
    const [x, y, width, height] = group.rect;
    put<GroupNode>(
      itemKey("group", group.id),
      [x, y],
      "box",
      { group },
      {
        ...(size ?? { width, height }),
        zIndex: -1,
        dragHandle: ".ll-group-head",
        className: "ll-flow-group",
        ariaLabel: group.title,
      },
    );
  }
  for (const note of graph.notes) {
    const size = overlay.size.get(itemKey("note", note.id));
    const [x, y, width, height] = note.rect;
    put<NoteNode>(
      itemKey("note", note.id),
      [x, y],
      "note",
      { note },
      {
        ...(size ?? { width, height }),
        zIndex: 1,
        ariaLabel: note.text,
      },
    );
  }
  for (const [id, reroute] of Object.entries(graph.reroutes)) {
    put<RerouteNode>(itemKey("reroute", id), reroute.at, "reroute", { id, reroute }, {});
  }
  for (const [name, node] of Object.entries(graph.nodes)) {
    const size = overlay.size.get(itemKey("node", name));
    const width = size?.width ?? node.size?.[0] ?? NODE_WIDTH;
    const minHeight = node.collapsed ? undefined : (size?.height ?? node.size?.[1]);
    const isNew = isMany && !overlay.measured.has(itemKey("node", name));
    put<CardNode>(
      itemKey("node", name),
      node.at,
      "card",
      { name, node },
      {
        ...(isNew ? estimate(node, specFor(graph, catalog, node), width, usedOutputs(graph, name)) : {}),
        ariaLabel: titleOf(graph, catalog, name),
        width,
        style: { minHeight },
        zIndex: selection.has(itemKey("node", name)) ? 2 : 0,
      },
    );
  }
  const isUnchanged = next.length === last.length && next.every((node, index) => node === last[index]);
  return isUnchanged ? last : next;
}

/** Whether two flat objects hold the same; a node that only moved is the same data. */
function isEqual(a: object, b: object): boolean {
  const one = a as Record<string, unknown>;
  const two = b as Record<string, unknown>;
  const keys = Object.keys(two);
  return keys.length === Object.keys(one).length && keys.every((key) => isSameField(key, one[key], two[key]));
}

function isSameField(key: string, a: unknown, b: unknown): boolean {
  if (a === b || key === "at") return true;
  const isNested =
    key === "node" || key === "group" || key === "note" || key === "position" || key === "style" || key === "measured";
  return isNested && typeof a === "object" && typeof b === "object" && !!a && !!b && isEqual(a, b);
}

function isSame(a: CanvasNode, b: CanvasNode): boolean {
  const keys = Object.keys(b) as (keyof CanvasNode)[];
  return (
    keys.length === Object.keys(a).length &&
    keys.every((key) => (key === "data" ? isEqual(a.data, b.data) : isSameField(key, a[key], b[key])))
  );
}
