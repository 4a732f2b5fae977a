/** The editor's own part of the file: where things lie. It means nothing to a run; what is malformed is left out. */

import type { EditorGraph, EditorNode, Group, Json, Note, Point, Reroute } from "../../types";
import { parseItem } from "../items";
import { freshName } from "../names";
import { filterRecord, has, mapRecord, own } from "../record";

export type Layout = Record<string, Json>;
type Rect = [number, number, number, number];
type Fields = { [key: string]: Json };
export type Place = Pick<EditorNode, "size" | "collapsed" | "color" | "isUnshown"> & { at: Point | null };

const MARKS = ["$groups", "$notes", "$reroutes", "$via"];
const PLACE_KEYS = ["at", "size", "collapsed", "color", "shown"];
const FARTHEST = 10_000_000;
const MAX_FRAMES = 1000;
const COLOR = /^([a-z]{1,20}|#[0-9a-f]{6})$/;

/** Where a node lies; `at` is null where the layout does not say. */
export function readPlace(layout: Layout, name: string): Place {
  const entry = own(layout, name);
  if (!isFields(entry)) return { at: pointOf(entry) };
  const size = pointOf(entry.size);
  const color = colorOf(entry.color);
  return {
    at: pointOf(entry.at),
    ...(size && size[0] > 0 && size[1] > 0 ? { size } : {}),
    ...(entry.collapsed === true ? { collapsed: true } : {}),
    ...(color ? { color } : {}),
    ...(entry.shown === false ? { isUnshown: true } : {}),
  };
}

/** Groups, notes, reroutes, and what the layout holds besides. */
export function readFrames(
  layout: Layout,
  isNode: (name: string) => boolean,
): Pick<EditorGraph, "groups" | "notes" | "reroutes" | "via" | "rest"> {
  return {
    groups: framesOf(
      own(layout, "$groups"),
      (entry): Group => ({ ...frameOf(entry), title: textOf(entry.title), ...membersOf(entry) }),
    ),
    notes: framesOf(own(layout, "$notes"), (entry): Note => ({ ...frameOf(entry), text: textOf(entry.text) })),
    reroutes: reroutesOf(own(layout, "$reroutes")),
    via: filterRecord(fieldsOf(own(layout, "$via")), (id) => typeof id === "string") as Record<string, string>,
    rest: restOf(layout, isNode),
  };
}

export function writeLayout(graph: EditorGraph): Layout {
  const nodes = mapRecord(graph.nodes, (node, name) => writePlace(node, own(graph.rest, name)));
  const marks: Layout = {
    $groups: graph.groups as unknown as Json,
    $notes: graph.notes as unknown as Json,
    $reroutes: graph.reroutes as unknown as Json,
    $via: graph.via,
  };
  const rest = filterRecord(graph.rest, (_, key) => !has(graph.nodes, key));
  return { ...nodes, ...filterRecord(marks, (mark) => Object.keys(mark as object).length > 0), ...rest };
}

function writePlace(node: EditorNode, rest: Json | undefined): Json {
  const { at, size, collapsed, color, isUnshown } = node;
  const more = {
    ...(size && { size }),
    ...(collapsed && { collapsed }),
    ...(color && { color }),
    ...(isUnshown && { shown: false }),
    ...fieldsOf(rest),
  };
  return Object.keys(more).length ? { at, ...more } : at;
}

/** Unknown entries whole, and unknown keys of the entries of nodes. */
function restOf(layout: Layout, isNode: (name: string) => boolean): Layout {
  const entries = Object.entries(layout).flatMap(([key, entry]): [string, Json][] => {
    if (MARKS.includes(key)) return [];
    if (!isNode(key)) return [[key, entry]];
    const unknown = filterRecord(fieldsOf(entry), (_, field) => !PLACE_KEYS.includes(field));
    return Object.keys(unknown).length ? [[key, unknown]] : [];
  });
  return Object.fromEntries(entries);
}

function framesOf<F extends Group | Note>(value: Json | undefined, read: (entry: Fields) => F): F[] {
  const entries = Array.isArray(value) ? value.slice(0, MAX_FRAMES).filter(isFields) : [];
  const ids = new Set<string>();
  return entries
    .filter((entry) => rectOf(entry.rect))
    .map((entry) => {
      const frame = read(entry);
      const id = freshName(frame.id, (taken) => ids.has(taken));
      ids.add(id);
      return { ...entry, ...frame, id };
    });
}

function frameOf(entry: Fields): { id: string; color: string; rect: Rect } {
  return { id: textOf(entry.id) || "frame", color: colorOf(entry.color), rect: rectOf(entry.rect) ?? [0, 0, 1, 1] };
}

/** What a group says that it holds; nothing where it does not say. */
function membersOf({ members }: Fields): { members?: string[] } {
  if (members === undefined) return {};
  const keys = Array.isArray(members) ? members : [];
  return { members: keys.filter((key): key is string => typeof key === "string" && parseItem(key) !== null) };
}

function reroutesOf(value: Json | undefined): Record<string, Reroute> {
  const read = Object.entries(fieldsOf(value)).flatMap(([id, entry]) => {
    const at = isFields(entry) ? pointOf(entry.at) : null;
    return at && isFields(entry) && typeof entry.from === "string" ? [[id, { at, from: entry.from }]] : [];
  });
  return Object.fromEntries(read) as Record<string, Reroute>;
}

function isFields(value: Json | undefined): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function fieldsOf(value: Json | undefined): Fields {
  return isFields(value) ? value : {};
}

function isNear(value: Json | undefined): value is number {
  return typeof value === "number" && Math.abs(value) <= FARTHEST;
}

function pointOf(value: Json | undefined): Point | null {
  if (!Array.isArray(value) || value.length !== 2) return null;
  const [x, y] = value;
  return isNear(x) && isNear(y) ? [x, y] : null;
}

function rectOf(value: Json | undefined): Rect | null {
  if (!Array.isArray(value) || value.length !== 4) return null;
  const [x, y, width, height] = value;
  const isGood = isNear(x) && isNear(y) && isNear(width) && isNear(height) && width > 0 && height > 0;
  return isGood ? [x, y, width, height] : null;
}

function textOf(value: Json | undefined): string {
  return typeof value === "string" ? value : "";
}

function colorOf(value: Json | undefined): string {
  return typeof value === "string" && COLOR.test(value) ? value : "";
}
