/** The workflow file. */

import type { Json, Scalar } from "./values";

export interface Link {
  from: string;
}

export interface ParamRef {
  param: string;
}

export interface Wrapped {
  value: Json;
}

export type InputValue = Scalar | null | Json[] | Link | ParamRef | Wrapped;
export type Mode = "run" | "mute" | "bypass";
export type ParamType = "string" | "int" | "float" | "bool" | "choice" | "list[string]" | "list[int]" | "list[float]";

export interface Param {
  type: ParamType;
  default?: Scalar | Scalar[] | null;
  choices?: string[];
  /** A number, or the digits of one that JavaScript would round: see `exact.ts`. */
  min?: number | string | null;
  max?: number | string | null;
  help?: string;
  /** The heading that a form puts it under. */
  group?: string;
}

export interface NodeFile {
  type: string;
  version?: number;
  title?: string;
  mode?: Mode;
  inputs?: Record<string, InputValue>;
  each?: Record<string, EachList>;
}

/** What a for-each goes through. */
export type EachList =
  | Scalar[]
  | Link
  | ParamRef
  | { lines: string | ParamRef }
  | { range: (number | ParamRef)[] }
  | { folder: string | ParamRef; match?: string };

/** An input of a sub-workflow, a wire's or a value's. */
export interface SubParam extends Omit<Param, "type"> {
  type: string;
}

export interface SubFile {
  title?: string;
  help?: string;
  params?: Record<string, SubParam>;
  nodes: Record<string, NodeFile>;
  outputs?: Record<string, Link>;
  layout?: Record<string, Json>;
}

/** A workflow as the file holds it. */
export interface GraphFile {
  /** For other editors. */
  $schema?: string;
  format: number;
  name: string;
  description?: string;
  requires?: Record<string, string>;
  params?: Record<string, Param>;
  nodes: Record<string, NodeFile>;
  subs?: Record<string, SubFile>;
  outputs?: Record<string, Link>;
  /** The user's own keys. */
  meta?: Record<string, Json>;
  layout?: Record<string, Json>;
}
