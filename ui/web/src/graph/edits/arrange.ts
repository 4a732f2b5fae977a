/** Arrange nodes as a page is written: from left to right by what feeds what, then on in the next row. */

import type { EditorGraph, Point } from "../../types";
import { inOrder, sourcesOf } from "../order";
import { has, own } from "../record";
import { isLink, splitTarget } from "../values";
import { changeNodes } from "./nodes";

/** Of a node that is not drawn yet. */
export const NODE_WIDTH = 256;
const DEFAULT_SIZE: Point = [NODE_WIDTH, 300];
const MARGIN = 40;
/** Between neighbours: wires have room there. */
export const [GAP_X, GAP_Y] = [56, 36];
/** Between rows: the more wires run there, the wider. */
const [ROW_GAP, ROW_GAP_MOST, TRACK] = [48, 160, 9];
/** Where no window says otherwise: three columns, a row that a small screen shows whole. */
const ROOM: Point = [3 * NODE_WIDTH + 2 * GAP_X, 610];
/** So far may the rows after the first one be higher than the window, where that saves a row. */
const STRETCH = 1.12;
/** So many of the nodes that could come next are looked at. */
const LOOKED_AT = 40;

type SizeOf = (name: string) => Point;

interface Options {
  only?: Iterable<string> | undefined;
  /** Tells a node's size on the screen. */
  sizeOf?: (node: string) => Point | undefined;
  /** Width of all columns and height of a row, as far as they fit the window. */
  room?: Point | undefined;
}

/** Arrange some nodes, or all where none are named. Comments on which a node would come to lie go below all. */
export function arrange(graph: EditorGraph, { only, sizeOf, room = ROOM }: Options = {}): EditorGraph {
  const chosen = new Set([...(only ?? [])].filter((name) => has(graph.nodes, name)));
  const names = inOrder(graph).filter((name) => !chosen.size || chosen.has(name));
  const size: SizeOf = (name) => sizeOf?.(name) ?? own(graph.nodes, name)?.size ?? DEFAULT_SIZE;
  const corners = placed(graph, rowsOf(graph, names, size, room), size);
  const [toLeft, toTop] = chosen.size
    ? leastOf(names.map((name) => graph.nodes[name]?.at ?? [0, 0]))
    : [MARGIN, MARGIN];
  const moved = changeNodes(graph, names, (node, name) => {
    const [x, y] = corners.get(name) ?? [0, 0];
    const at: Point = [Math.round(toLeft + x), Math.round(toTop + y)];
    return at[0] === node.at[0] && at[1] === node.at[1] ? node : { ...node, at };
  });
  return chosen.size ? moved : withNotesBelow(moved, size);
}

/** Columns of nodes. */
type Row = string[][];

/** Nodes one after the other, those that much hangs on first: below each other while a column has room, then in the next
column, then in the next row. A node stands in a later column or row than all that feeds it. */
function rowsOf(graph: EditorGraph, names: readonly string[], size: SizeOf, [width, height]: Point): Row[] {
  const queue = new Queue(graph, names);
  const rows: Row[] = [];
  while (queue.isLeft) {
    const row: Row = [];
    const most = rows.length ? height * STRETCH : height;
    for (let left = width; queue.isLeft; ) {
      const first = queue.first();
      const wide = size(first)[0];
      if (row.length && wide > left) break;
      const column = [first];
      queue.take(first);
      let spare = most - size(first)[1] - GAP_Y;
      for (const name of queue.ready()) {
        const [itsWidth, itsHeight] = size(name);
        if (itsHeight > spare || itsWidth > Math.max(wide, left)) continue;
        column.push(name);
        queue.take(name);
        spare -= itsHeight + GAP_Y;
      }
      queue.release(column);
      row.push(column);
      left -= Math.max(...column.map((name) => size(name)[0])) + GAP_X;
    }
    rows.push(row);
  }
  return rows;
}

/** The nodes that can come next, and in which order. */
class Queue {
  private readonly rank: Map<string, number>;
  private readonly missing: Map<string, number>;
  private readonly users = new Map<string, string[]>();
  private waiting: string[];
  private left: number;

  constructor(graph: EditorGraph, names: readonly string[]) {
    const all = new Set(names);
    const sources = new Map(names.map((name) => [name, sourcesOf(graph, name).filter((source) => all.has(source))]));
    for (const [name, fed] of sources) {
      for (const source of fed) this.users.set(source, [...(this.users.get(source) ?? []), name]);
    }
    this.missing = new Map(names.map((name) => [name, sources.get(name)?.length ?? 0]));
    this.rank = ranks(names, sources, this.users);
    this.left = names.length;
    this.waiting = names.filter((name) => this.missing.get(name) === 0).sort(this.inRank);
  }

  private readonly inRank = (a: string, b: string) => (this.rank.get(a) ?? 0) - (this.rank.get(b) ?? 0);

  get isLeft(): boolean {
    return this.left > 0;
  }

  first(): string {
    // Of nodes in a circle each waits for another.
    if (!this.waiting.length) {
      const [name] = [...this.missing].find(([, count]) => count > 0) ?? [""];
      this.missing.set(name, 0);
      this.waiting = [name];
    }
    return this.waiting[0] ?? "";
  }

  ready(): string[] {
    return this.waiting.slice(0, LOOKED_AT);
  }

  take(name: string): void {
    this.waiting = this.waiting.filter((other) => other !== name);
    this.missing.set(name, -1);
    this.left--;
  }

  /** What was taken is placed: what it feeds can come next. */
  release(names: readonly string[]): void {
    const freed: string[] = [];
    for (const name of names.flatMap((each) => this.users.get(each) ?? [])) {
      const count = (this.missing.get(name) ?? 0) - 1;
      if (count < 0) continue;
      this.missing.set(name, count);
      if (count === 0) freed.push(name);
    }
    if (freed.length) this.waiting = [...this.waiting, ...freed].sort(this.inRank);
  }
}

/** Graph by graph that hang together; in each what the longest way leads on from comes first. */
function ranks(
  names: readonly string[],
  sources: ReadonlyMap<string, readonly string[]>,
  users: ReadonlyMap<string, readonly string[]>,
): Map<string, number> {
  const part = new Map<string, number>();
  for (const name of names) {
    if (part.has(name)) continue;
    const isAlone = !sources.get(name)?.length && !users.get(name)?.length;
    // What is wired to nothing, such as a note, stands at the beginning.
    const number = isAlone ? -1 : part.size;
    const reached = new Set([name]);
    for (const each of reached) {
      part.set(each, number);
      for (const near of [...(sources.get(each) ?? []), ...(users.get(each) ?? [])]) reached.add(near);
    }
  }
  const length = new Map<string, number>();
  for (const name of [...names].reverse()) {
    const after = (users.get(name) ?? []).map((user) => length.get(user) ?? 0);
    length.set(name, 1 + Math.max(0, ...after));
  }
  const sorted = names
    .map((name, index) => ({ name, index, part: part.get(name) ?? 0, length: length.get(name) ?? 0 }))
    .sort((a, b) => a.part - b.part || b.length - a.length || a.index - b.index);
  return new Map(sorted.map(({ name }, index) => [name, index]));
}

/** Upper left corners; in a column what is fed from higher up stands higher. */
function placed(graph: EditorGraph, rows: readonly Row[], size: SizeOf): Map<string, Point> {
  const corners = new Map<string, Point>();
  const gaps = gapsOf(graph, rows);
  let top = 0;
  rows.forEach((row, index) => {
    let left = 0;
    let bottom = top;
    for (const column of row) {
      const height = (name: string): number => {
        const tops = sourcesOf(graph, name).flatMap((source) => corners.get(source)?.[1] ?? []);
        const inRow = tops.filter((at) => at >= top);
        return inRow.length ? inRow.reduce((sum, at) => sum + at, 0) / inRow.length : top;
      };
      let y = top;
      for (const name of [...column].sort((a, b) => height(a) - height(b))) {
        corners.set(name, [left, y]);
        y += size(name)[1] + GAP_Y;
      }
      bottom = Math.max(bottom, y - GAP_Y);
      left += Math.max(...column.map((name) => size(name)[0])) + GAP_X;
    }
    top = bottom + (gaps[index] ?? ROW_GAP);
  });
  return corners;
}

/** The room below each row, by how many outputs are led through it. */
function gapsOf(graph: EditorGraph, rows: readonly Row[]): number[] {
  const rowOf = new Map(rows.flatMap((row, index) => row.flat().map((name) => [name, index] as const)));
  const outputs = rows.map(() => new Set<string>());
  for (const [name, row] of rowOf) {
    for (const value of Object.values(own(graph.nodes, name)?.inputs ?? {})) {
      if (!isLink(value)) continue;
      const from = rowOf.get(splitTarget(value.from)[0]) ?? row;
      for (let index = from; index < row; index++) outputs[index]?.add(value.from);
    }
  }
  return outputs.map(({ size }) => Math.min(ROW_GAP_MOST, ROW_GAP + TRACK * size));
}

/** Comments that a node would cover, below each other under all nodes. */
function withNotesBelow(graph: EditorGraph, size: SizeOf): EditorGraph {
  const boxes = Object.entries(graph.nodes).map(([name, { at }]) => ({ at, size: size(name) }));
  const isCovered = ([x, y, width, height]: readonly number[]) =>
    boxes.some(
      ({ at, size: [w, h] }) =>
        at[0] < (x ?? 0) + (width ?? 0) &&
        at[0] + w > (x ?? 0) &&
        at[1] < (y ?? 0) + (height ?? 0) &&
        at[1] + h > (y ?? 0),
    );
  if (!graph.notes.some((note) => isCovered(note.rect))) return graph;
  let y = Math.max(...boxes.map((box) => box.at[1] + box.size[1])) + ROW_GAP;
  const notes = graph.notes.map((note) => {
    if (!isCovered(note.rect)) return note;
    const [, , width, height] = note.rect;
    const rect: typeof note.rect = [MARGIN, y, width, height];
    y += height + GAP_Y;
    return { ...note, rect };
  });
  return { ...graph, notes };
}

/** The upper left corner of what lies at some places. */
function leastOf(places: Iterable<Point>): Point {
  let [left, top] = [Infinity, Infinity];
  for (const [x, y] of places) [left, top] = [Math.min(left, x), Math.min(top, y)];
  return [left, top];
}
