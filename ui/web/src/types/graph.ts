/** The graph as the editor holds it. */

import type { Json, Point } from "./values";
import type { EachList, InputValue, Link, Mode, Param, SubFile } from "./workflow";

export interface EditorNode {
  type: string;
  version: number;
  title: string;
  mode: Mode;
  /** Values, params and links: the one place where links live. */
  inputs: Record<string, InputValue>;
  /** For-each: the lists that the node goes through, by input. */
  each?: Record<string, EachList>;
  at: Point;
  size?: Point;
  collapsed?: boolean;
  color?: string;
  /** Its results are not shown in the simple view. */
  isUnshown?: boolean;
}

export interface Group {
  id: string;
  title: string;
  color: string;
  rect: [number, number, number, number];
  /** Keys of the items that it holds; without it, all that lies in it. */
  members?: string[];
}

export interface Note {
  id: string;
  text: string;
  color: string;
  rect: [number, number, number, number];
}

/** A point that wires are drawn through. It changes no link. */
export interface Reroute {
  at: Point;
  /** "node.socket", or "$id" of the reroute before it. */
  from: string;
}

export interface EditorGraph {
  name: string;
  description: string;
  requires: Record<string, string>;
  params: Record<string, Param>;
  /** Sub-workflows, as the file holds them; nodes of the type `sub:name` use them. */
  subs: Record<string, SubFile>;
  nodes: Record<string, EditorNode>;
  outputs: Record<string, Link>;
  groups: Group[];
  notes: Note[];
  reroutes: Record<string, Reroute>;
  /** "node.socket" of an input -> id of the reroute that its wire comes from. */
  via: Record<string, string>;
  /** What the file's layout holds besides, kept as it is. */
  rest: Record<string, Json>;
  /** What else a file holds that means nothing here, kept as it is. */
  schema: string;
  meta: Record<string, Json>;
}
