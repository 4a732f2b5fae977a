/** What a group holds: its members move with it, and its box stays round them. A group of an older file does not say;
it holds what lies in it whole. */

import type { EditorGraph, Group, Point } from "../../types";
import type { Box } from "../freeSpot";
import { hasItem, itemKey, parseItem } from "../items";
import { changeList, has, own, withFields } from "../record";
import { move } from "./places";

/** Of a node, as it is drawn. */
export type SizeOf = (node: string) => Point;

export const MARGIN = 24;
/** Of a group: the line with its title. */
const HEAD = 44;

/** The keys of a group's members. */
export function membersOf(graph: EditorGraph, group: Group, sizeOf: SizeOf): string[] {
  if (group.members) return group.members.filter((key) => hasItem(graph, key));
  const [x, y, width, height] = group.rect;
  const isIn = ([left, top, w, h]: Box): boolean =>
    left >= x && top >= y && left + w <= x + width && top + h <= y + height;
  return itemsOf(graph).filter((key) => isIn(boxOf(graph, key, sizeOf)));
}

/** Every group says what it holds, each thing in one group: of two, in the smaller one. */
export function withMembers(graph: EditorGraph, sizeOf: SizeOf): EditorGraph {
  if (graph.groups.every((group) => group.members)) return graph;
  const taken = new Set(graph.groups.flatMap((group) => group.members ?? []));
  const given = new Map<string, string[]>();
  for (const group of bySize(graph.groups.filter(({ members }) => !members))) {
    const members = membersOf(graph, group, sizeOf).filter((key) => !taken.has(key));
    members.forEach((key) => taken.add(key));
    given.set(group.id, members);
  }
  const groups = graph.groups.map((group) => ({ ...group, members: group.members ?? given.get(group.id) ?? [] }));
  return { ...graph, groups };
}

/** Put nodes, comments and reroutes into one group, out of all others; null puts them into none. */
export function setMembers(graph: EditorGraph, added: readonly string[], id: string | null): EditorGraph {
  const keys = added.filter((key) => canBeHeld(graph, key));
  const groups = changeList(graph.groups, (group) => {
    const others = (group.members ?? []).filter((key) => !keys.includes(key));
    const members = group.id === id ? [...others, ...keys] : others;
    return same(members, group.members) ? group : { ...group, members };
  });
  return withFields(graph, { groups });
}

/** Places with those of the members of every group that is among them. */
export function together(graph: EditorGraph, places: Record<string, Point>, sizeOf: SizeOf): Record<string, Point> {
  const all = { ...places };
  for (const group of graph.groups) {
    const to = own(places, itemKey("group", group.id));
    if (!to) continue;
    for (const key of membersOf(graph, group, sizeOf)) {
      const [x, y] = boxOf(graph, key, sizeOf);
      if (!has(places, key)) all[key] = [x + to[0] - group.rect[0], y + to[1] - group.rect[1]];
    }
  }
  return all;
}

/** The group that a thing would be in at a place: the smallest one round its middle. */
export function groupAround(graph: EditorGraph, key: string, [x, y]: Point, sizeOf: SizeOf): string | null {
  const [, , width, height] = boxOf(graph, key, sizeOf);
  const [middleX, middleY] = [x + width / 2, y + height / 2];
  const holds = ({ rect: [left, top, w, h] }: Group): boolean =>
    middleX >= left && middleX <= left + w && middleY >= top && middleY <= top + h;
  return bySize(graph.groups).find(holds)?.id ?? null;
}

/** The group that holds a thing; null for none. */
export function groupOf(graph: EditorGraph, key: string, sizeOf: SizeOf): string | null {
  return bySize(graph.groups).find((group) => membersOf(graph, group, sizeOf).includes(key))?.id ?? null;
}

/** Move things, with a group its members: what then lies in a group joins it, what lies outside of its own leaves it. */
export function moveGrouped(graph: EditorGraph, places: Record<string, Point>, sizeOf: SizeOf): EditorGraph {
  if (graph.groups.length === 0) return move(graph, places);
  const said = withMembers(graph, sizeOf);
  let moved = move(said, together(said, places, sizeOf));
  for (const [key, at] of Object.entries(places)) {
    if (!canBeHeld(moved, key)) continue;
    const to = groupAround(moved, key, at, sizeOf);
    if (to !== groupOf(moved, key, sizeOf)) moved = setMembers(moved, [key], to);
  }
  return growGroups(moved, sizeOf);
}

function canBeHeld(graph: EditorGraph, key: string): boolean {
  return /^[ncr]:/.test(key) && hasItem(graph, key);
}

/** Every group that has members is as large as they need, or at least that. */
export function fitGroups(graph: EditorGraph, sizeOf: SizeOf): EditorGraph {
  return changeRects(graph, (group) => bounds(graph, group, sizeOf), sizeOf);
}

export function growGroups(graph: EditorGraph, sizeOf: SizeOf): EditorGraph {
  return changeRects(graph, (group) => union([group.rect, bounds(graph, group, sizeOf)]), sizeOf);
}

function changeRects(graph: EditorGraph, rectOf: (group: Group) => Box, sizeOf: SizeOf): EditorGraph {
  const groups = changeList(graph.groups, (group) => {
    if (membersOf(graph, group, sizeOf).length === 0) return group;
    const [x, y, width, height] = rectOf(group);
    return group.rect.every((number, index) => number === [x, y, width, height][index])
      ? group
      : { ...group, rect: [x, y, width, height] as [number, number, number, number] };
  });
  return withFields(graph, { groups });
}

/** The box that goes round a group's members, with its head. */
export function bounds(graph: EditorGraph, group: Group, sizeOf: SizeOf): Box {
  const boxes = membersOf(graph, group, sizeOf).map((key) => boxOf(graph, key, sizeOf));
  if (boxes.length === 0) return group.rect;
  const [x, y, width, height] = union(boxes);
  return [x - MARGIN, y - HEAD - MARGIN / 2, width + 2 * MARGIN, height + HEAD + 1.5 * MARGIN];
}

export function union(boxes: readonly Box[]): Box {
  const left = Math.min(...boxes.map(([x]) => x));
  const top = Math.min(...boxes.map(([, y]) => y));
  const right = Math.max(...boxes.map(([x, , width]) => x + width));
  const bottom = Math.max(...boxes.map(([, y, , height]) => y + height));
  return [left, top, right - left, bottom - top];
}

function itemsOf(graph: EditorGraph): string[] {
  return [
    ...Object.keys(graph.nodes).map((name) => itemKey("node", name)),
    ...Object.keys(graph.reroutes).map((id) => itemKey("reroute", id)),
    ...graph.notes.map(({ id }) => itemKey("note", id)),
  ];
}

export function boxOf(graph: EditorGraph, key: string, sizeOf: SizeOf): Box {
  const { kind, id } = parseItem(key) ?? { kind: "wire", id: "" };
  if (kind === "node") return [...(own(graph.nodes, id)?.at ?? ([0, 0] as Point)), ...sizeOf(id)];
  if (kind === "reroute") return [...(own(graph.reroutes, id)?.at ?? ([0, 0] as Point)), 0, 0];
  return (kind === "note" ? graph.notes : graph.groups).find((frame) => frame.id === id)?.rect ?? [0, 0, 0, 0];
}

function bySize(groups: readonly Group[]): Group[] {
  return [...groups].sort((a, b) => a.rect[2] * a.rect[3] - b.rect[2] * b.rect[3]);
}

function same(a: readonly string[], b: readonly string[] | undefined): boolean {
  return b !== undefined && a.length === b.length && a.every((key, index) => key === b[index]);
}
