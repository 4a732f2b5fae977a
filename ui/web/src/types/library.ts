/** Users, their workflows and drafts, problems of a workflow. */

import type { GraphFile } from "./workflow";

export interface Problem {
  node: string;
  socket: string;
  code: string;
  message: string;
}

export interface Me {
  user: string;
  has_auth: boolean;
  version: string;
  output_dir_name: string;
  max_upload_bytes: number;
}

export interface Template {
  id: string;
  name: string;
  description: string;
  graph: GraphFile;
}

export interface Workflow {
  id: string;
  name: string;
  folder: string;
  /** The beginning of its description. */
  summary: string;
  /** Epoch seconds. */
  updated: number;
  version: number;
  num_nodes: number;
  has_thumb: boolean;
}

export interface WorkflowWithGraph extends Workflow {
  graph: GraphFile;
}

export interface WorkflowVersion {
  version: number;
  time: number;
  num_nodes: number;
}

/** The saved workflow that the editor's graph came from. */
export interface WorkflowRef {
  id: string;
  version: number;
  name: string;
}

export interface DraftEntry {
  key: string;
  name: string;
  workflow_id: string | null;
  updated: number;
}

export interface Draft {
  graph: GraphFile;
  workflow_id: string | null;
  base_version: number | null;
}

export interface NamedGraph {
  name: string;
  graph: GraphFile;
}

export interface Upload {
  /** What Load Image takes. */
  path: string;
  name: string;
  width: number;
  height: number;
}

export interface UploadRow {
  /** What Load Image takes. */
  path: string;
  bytes: number;
  /** Epoch seconds. */
  time: number;
}
