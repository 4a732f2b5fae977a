/** The catalog of nodes. */

import type { Scalar } from "./values";

export interface InputSpec {
  name: string;
  /** "int", "float", "bool", "string", "choice", or the name of a value type such as "Latents". */
  type: string;
  required: boolean;
  default: Scalar | null;
  choices: string[];
  min: number | null;
  max: number | null;
  step: number | null;
  /** Which widget draws it, such as "seed", "multiline", "model", "lora", "picture"; "" is the type's own. */
  widget: string;
  advanced: boolean;
  help: string;
}

export interface OutputSpec {
  name: string;
  type: string;
  help: string;
}

export interface NodeSpec {
  id: string;
  version: number;
  title: string;
  category: string;
  help: string;
  inputs: InputSpec[];
  outputs: OutputSpec[];
  is_output: boolean;
  uses_device: boolean;
  is_kept: boolean;
}

export interface Catalog {
  version: string;
  nodes: NodeSpec[];
  types: string[];
}
