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
export type ParamType = "string" | "int" | "float" | "bool" | "choice";

export interface Param {
  type: ParamType;
  default?: Scalar | null;
  choices?: string[];
  /** A number, or the digits of one that JavaScript would round: see `exact.ts`. */
  min?: number | string | null;
  max?: number | string | null;
  help?: string;
}

export interface NodeFile {
  type: string;
  version?: number;
  title?: string;
  mode?: Mode;
  inputs?: Record<string, InputValue>;
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
  outputs?: Record<string, Link>;
  /** The user's own keys. */
  meta?: Record<string, Json>;
  layout?: Record<string, Json>;
}
