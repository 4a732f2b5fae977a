/** Edits of groups and notes. */

import type { EditorGraph, Group, Note, Point } from "../../types";
import { itemKey } from "../items";
import { changeList, withFields } from "../record";

export function addGroup(graph: EditorGraph, group: Group): EditorGraph {
  return { ...graph, groups: [...graph.groups, group] };
}

export function setGroup(graph: EditorGraph, id: string, change: Partial<Omit<Group, "id">>): EditorGraph {
  return withFields(graph, {
    groups: changeList(graph.groups, (group) => (group.id === id ? withFields(group, change) : group)),
  });
}

export function addNote(graph: EditorGraph, note: Note): EditorGraph {
  return { ...graph, notes: [...graph.notes, note] };
}

export function setNote(graph: EditorGraph, id: string, change: Partial<Omit<Note, "id">>): EditorGraph {
  return withFields(graph, {
    notes: changeList(graph.notes, (note) => (note.id === id ? withFields(note, change) : note)),
  });
}

/** The keys and places of what lies in a group: it moves with it. `sizeOf` tells a node's size on the screen. */
export function inGroup(graph: EditorGraph, id: string, sizeOf: (node: string) => Point): Record<string, Point> {
  const rect = graph.groups.find((group) => group.id === id)?.rect;
  if (!rect) return {};
  const [x, y, width, height] = rect;
  const holds = ([px, py]: Point, [w, h]: Point = [0, 0]): boolean =>
    px >= x && py >= y && px + w <= x + width && py + h <= y + height;
  const nodes = Object.entries(graph.nodes).filter(([name, node]) => holds(node.at, sizeOf(name)));
  const reroutes = Object.entries(graph.reroutes).filter(([, reroute]) => holds(reroute.at));
  const notes = graph.notes.filter(({ rect: [nx, ny, w, h] }) => holds([nx, ny], [w, h]));
  return Object.fromEntries([
    ...nodes.map(([name, node]) => [itemKey("node", name), node.at] as const),
    ...reroutes.map(([name, reroute]) => [itemKey("reroute", name), reroute.at] as const),
    ...notes.map((note) => [itemKey("note", note.id), [note.rect[0], note.rect[1]] as Point] as const),
  ]);
}
