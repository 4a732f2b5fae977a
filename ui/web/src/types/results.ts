/** Results, models and plans. */

import type { Device, Overrides } from "./runs";
import type { Json } from "./values";
import type { GraphFile } from "./workflow";

export interface Result {
  id: string;
  run: string;
  batch: string;
  node: string;
  kind: "image" | "video";
  name: string;
  width: number;
  height: number;
  frames: number;
  fps: number;
  bytes: number;
  time: number;
  workflow_name: string;
  params: Record<string, Json>;
  prompt: string;
  seed: number | string | null;
  plan: string;
  seconds: number;
  varied: Record<string, Json>;
}

export interface ResultQuery {
  search?: string;
  batch?: string;
  limit?: number;
  before?: string;
}

/** A plan on some devices; `fits` is null where nobody can tell. */
export interface PlanChoice {
  plan: string;
  devices: string;
  num_ranks: number;
  fits: boolean | null;
  bytes_per_device: number;
  problem: string;
}

export interface ModelEntry {
  name: string;
  family: string;
  num_bytes: number;
  location: string;
  revision: string;
  problem: string;
  strategies: string[];
  /** Why the tokens of its transformer cannot be split; guidance can be in any case. */
  split_problem: string;
  plans: PlanChoice[];
}

export interface LoadedPart {
  name: string;
  component: string;
  device: string;
  bytes: number;
}

export interface ModelsView {
  models: ModelEntry[];
  devices: Device[];
  loaded: LoadedPart[];
}

export interface PlanRequest {
  graph: GraphFile;
  overrides?: Overrides;
  devices?: string;
  plan?: string;
}

export interface PlanStrategies {
  cfg: number;
  ulysses: number;
  ring: number;
  allgather: number;
  weights: number;
  text: string;
}

export interface PlanRank {
  rank: number;
  device: string;
  bytes: number;
  fits: boolean | null;
}

export interface PlanNode {
  node: string;
  model: string;
  family: string;
  plan: string;
  why: string;
  is_chosen_by_hand: boolean;
  num_ranks: number;
  strategies: PlanStrategies;
  ranks: PlanRank[];
  need_bytes: number;
  problem: string;
}

export interface PlanView {
  devices: Device[];
  nodes: PlanNode[];
  choices: PlanChoice[];
  problem: string;
}
