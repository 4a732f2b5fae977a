/** Runs, and the messages that tell of them. */

import type { Json } from "./values";
import type { GraphFile } from "./workflow";

export type RunState = "waiting" | "running" | "done" | "failed" | "cancelled";
export type NodeRunState = RunState | "cached" | "skipped";

export interface RankWork {
  rank: number;
  device: string;
  seconds: number;
  sent_bytes: number;
  exchanges: number;
  peak_memory_bytes: number;
}

export interface NodeState {
  state: NodeRunState;
  /** Epoch seconds on the server's clock; 0 before it starts. */
  started: number;
  done: number;
  total: number;
  seconds: number;
  left_s: number | null;
  phase: string;
  /** The failure's sentence, why it was skipped, or why it was cached. */
  message: string;
  cached: "memory" | "disk" | "shared" | "unneeded" | "";
  /** Number of the newest preview; 0 is none. */
  preview: number;
  plan: string;
  ranks: RankWork[];
  /** Ids of results. */
  files: string[];
}

export type Overrides = Record<string, Json>;

export interface Run {
  id: string;
  batch: string;
  name: string;
  workflow_id: string | null;
  state: RunState;
  created: number | null;
  started: number | null;
  ended: number | null;
  seconds: number;
  done: number;
  total: number;
  left_s: number | null;
  error: string;
  note: string;
  overrides: Overrides;
  varied: Record<string, Json>;
  targets: string[];
  plan: string;
  nodes: Record<string, NodeState>;
}

export interface RunWithGraph extends Run {
  /** As it was run, with its values put in; null where the server has lost it. */
  graph: GraphFile | null;
  /** Of the packages that made it; empty where that is not known. */
  versions: Record<string, string | null>;
}

export interface RunRequest {
  graph: GraphFile;
  overrides?: Overrides;
  /** Each such as "seed=1..4". */
  sweep?: string[];
  targets?: string[];
  workflow_id?: string | null;
  devices?: string;
  plan?: string;
}

export interface Submitted {
  batch: string;
  runs: string[];
}

export interface QueueEntry {
  /** null: another user's. */
  id: string | null;
  is_mine: boolean;
  state: RunState;
  name: string;
}

export interface Device {
  name: string;
  title: string;
  total_bytes: number;
  used_bytes: number;
  load: number | null;
}

/** One message of the WebSocket: what changed since the last one; all of it where `full`. */
export interface LiveMessage {
  seq: number;
  full: boolean;
  /** Epoch milliseconds of the newest event in it. */
  t: number;
  /** Random id of the server process; another one means that it was restarted. */
  server: string;
  runs: Record<string, Partial<Run>>;
  removed?: string[];
  queue?: QueueEntry[];
  library?: number;
  results?: number;
  devices?: Device[];
}
