export interface Contract {
  [k: string]: unknown;
}
/**
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "Catalog".
 */
export interface Catalog {
  /**
   * Another one where any node changed.
   */
  version: string;
  nodes: CatalogNode[];
  types: string[];
}
/**
 * One node, as `latentloom nodes --json` has it.
 *
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "CatalogNode".
 */
export interface CatalogNode {
  id: string;
  version: number;
  title: string;
  category: string;
  help: string;
  inputs: CatalogInput[];
  outputs: OutputSpec[];
  /**
   * It acts, so it runs although nothing asks for its value.
   */
  is_output: boolean;
  uses_device: boolean;
  /**
   * False: what it gives holds for this machine and this run only.
   */
  is_kept: boolean;
}
/**
 * One input socket of a node.
 *
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "CatalogInput".
 */
export interface CatalogInput {
  name: string;
  /**
   * One of "int", "float", "bool", "string", "choice", or the name of a value type such as "Latents".
   */
  type: string;
  required: boolean;
  default: boolean | number | string | null;
  choices: string[];
  min: number | null;
  max: number | null;
  step: number | null;
  /**
   * What draws it; "" is the type's own.
   */
  widget: "" | "seed" | "multiline" | "model" | "lora" | "picture";
  advanced: boolean;
  help: string;
}
/**
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "OutputSpec".
 */
export interface OutputSpec {
  name: string;
  type: string;
  help: string;
}
/**
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "CheckBody".
 */
export interface CheckBody {
  /**
   * A workflow file, as `latentloom run` takes it.
   */
  graph: {
    [k: string]: unknown;
  };
  overrides?: {
    [k: string]: boolean | number | string;
  };
}
/**
 * One plan on some devices; `fits` is None where a device's memory is not known.
 *
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "Choice".
 */
export interface Choice {
  plan: string;
  devices: string;
  num_ranks: number;
  fits: boolean | null;
  bytes_per_device: number;
  problem: string;
}
/**
 * One device; `load` goes from 0 to 1 and is None where nobody tells.
 *
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "DeviceNow".
 */
export interface DeviceNow {
  name: string;
  title: string;
  total_bytes: number;
  used_bytes: number;
  load: number | null;
}
/**
 * What a page had on its canvas last.
 *
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "Draft".
 */
export interface Draft {
  key: string;
  name: string;
  workflow_id: string | null;
  base_version: number | null;
  /**
   * Seconds since the epoch.
   */
  updated: number;
}
/**
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "DraftBody".
 */
export interface DraftBody {
  /**
   * A workflow file, as `latentloom run` takes it.
   */
  graph: {
    [k: string]: unknown;
  };
  workflow_id?: string | null;
  base_version?: number | null;
}
/**
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "DraftWithGraph".
 */
export interface DraftWithGraph {
  key: string;
  name: string;
  workflow_id: string | null;
  base_version: number | null;
  /**
   * Seconds since the epoch.
   */
  updated: number;
  /**
   * It need not be a sound one.
   */
  graph: GraphFile;
}
/**
 * `{}`
 *
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "Empty".
 */
export interface Empty {}
/**
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "ErrorAnswer".
 */
export interface ErrorAnswer {
  /**
   * One sentence for people.
   */
  error: string;
  /**
   * All that is wrong with a workflow.
   */
  problems?: Problem[];
}
/**
 * One fault. `node` and `socket` are empty where the fault belongs to the whole file.
 *
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "Problem".
 */
export interface Problem {
  node: string;
  socket: string;
  code: string;
  message: string;
}
/**
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "FileText".
 */
export interface FileText {
  text: string;
}
/**
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "GraphBody".
 */
export interface GraphBody {
  /**
   * A workflow file, as `latentloom run` takes it.
   */
  graph: {
    [k: string]: unknown;
  };
}
/**
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "LiveMessage".
 */
export interface LiveMessage {
  [k: string]: unknown;
}
/**
 * One run as the WebSocket tells it: all of its facts, and those of its nodes that changed.
 *
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "LiveRun".
 */
export interface LiveRun {
  id: string;
  batch: string;
  name: string;
  workflow_id: string | null;
  state: "waiting" | "running" | "done" | "failed" | "cancelled";
  created: number;
  started: number | null;
  ended: number | null;
  seconds: number;
  error: string;
  note: string;
  plan: string;
  /**
   * Its values in its batch; in a list of long texts the beginning.
   */
  varied: {
    [k: string]: unknown;
  };
  done: number;
  total: number;
  /**
   * The least that it takes yet; null until there is a number to trust.
   */
  left_s: number | null;
  overrides: {
    [k: string]: unknown;
  };
  /**
   * The nodes that it was run to; null is all that make something.
   */
  targets: string[] | null;
  nodes: {
    [k: string]: NodeState;
  };
}
/**
 * One node of a run. Times are seconds.
 *
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "NodeState".
 */
export interface NodeState {
  state: "waiting" | "running" | "done" | "cached" | "failed" | "cancelled" | "skipped";
  /**
   * Seconds since the epoch on the server's clock; 0 before it starts.
   */
  started: number;
  done: number;
  total: number;
  seconds: number;
  /**
   * Of its steps; null until there is a number to trust.
   */
  left_s: number | null;
  phase: string;
  /**
   * The failure's sentence, why it was skipped, or why it was cached.
   */
  message: string;
  cached: "" | "memory" | "disk" | "shared" | "unneeded";
  /**
   * Counts the previews; 0 before the first.
   */
  preview: number;
  plan: string;
  ranks: RankWork[];
  /**
   * Ids of results.
   */
  files: string[];
}
/**
 * What one rank did in one stage, or this process where it works alone.
 *
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "RankWork".
 */
export interface RankWork {
  /**
   * Its number among those that work together, or could.
   */
  rank: number;
  device: string;
  /**
   * What the device is, such as the GPU's name.
   */
  title: string;
  /**
   * The name of its machine; of one in a cluster, the cluster's name for it.
   */
  machine: string;
  seconds: number;
  sent_bytes: number;
  /**
   * Collective calls, as the algorithm sees them.
   */
  exchanges: number;
  /**
   * Of an accelerator, else of the process; loading counts, and so does what it does beside the stage.
   */
  peak_memory_bytes: number;
}
/**
 * One part of a model that is in memory.
 *
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "LoadedPart".
 */
export interface LoadedPart {
  name: string;
  component: string;
  device: string;
  bytes: number;
}
/**
 * What is kept of a picture or video that a run made, and told of it.
 *
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "MadeFacts".
 */
export interface MadeFacts {
  id: string;
  node: string;
  kind: "image" | "video";
  name: string;
  width: number;
  height: number;
  frames: number;
  fps: number;
  bytes: number;
  /**
   * Seconds since the epoch.
   */
  time: number;
  prompt: string;
  seed: number | string | null;
}
/**
 * Who asks, and what this server allows.
 *
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "Me".
 */
export interface Me {
  user: string;
  has_auth: boolean;
  version: string;
  output_dir_name: string;
  max_upload_bytes: number;
}
/**
 * One model; `plans` are those for the first device, two, four and so on, up to all.
 *
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "ModelRow".
 */
export interface ModelRow {
  name: string;
  family: string;
  num_bytes: number;
  location: string;
  revision: string;
  problem: string;
  strategies: string[];
  /**
   * Why the tokens of its transformer cannot be split; guidance can be in any case.
   */
  split_problem: string;
  plans: Choice[];
}
/**
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "ModelsView".
 */
export interface ModelsView {
  models: ModelRow[];
  devices: DeviceNow[];
  loaded: LoadedPart[];
}
/**
 * Null is the end of the queue.
 *
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "MoveBody".
 */
export interface MoveBody {
  before: string | null;
}
/**
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "NamedGraph".
 */
export interface NamedGraph {
  name: string;
  graph: GraphFile;
}
/**
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "NewWorkflowBody".
 */
export interface NewWorkflowBody {
  /**
   * A workflow file, as `latentloom run` takes it.
   */
  graph: {
    [k: string]: unknown;
  };
  name?: string | null;
  folder?: string;
}
/**
 * `{}`: there is no plan.
 *
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "NoStrategies".
 */
export interface NoStrategies {}
/**
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "PlanBody".
 */
export interface PlanBody {
  /**
   * A workflow file, as `latentloom run` takes it.
   */
  graph: {
    [k: string]: unknown;
  };
  overrides?: {
    [k: string]: boolean | number | string;
  };
  devices?: string;
  plan?: string;
}
/**
 * How one denoise would run, or `problem`: why it cannot.
 *
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "PlanNode".
 */
export interface PlanNode {
  node: string;
  model: string;
  family: string;
  plan: string;
  why: string;
  is_chosen_by_hand: boolean;
  num_ranks: number;
  strategies: PlanStrategies | NoStrategies;
  ranks: PlanRank[];
  /**
   * Of the whole model's weights.
   */
  need_bytes: number;
  problem: string;
}
/**
 * The degrees of a plan.
 *
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "PlanStrategies".
 */
export interface PlanStrategies {
  cfg: number;
  ulysses: number;
  ring: number;
  allgather: number;
  weights: number;
  text: string;
}
/**
 * What one rank would need; `fits` is null where nobody can tell.
 *
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "PlanRank".
 */
export interface PlanRank {
  rank: number;
  device: string;
  bytes: number;
  fits: boolean | null;
}
/**
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "PlanView".
 */
export interface PlanView {
  devices: DeviceNow[];
  nodes: PlanNode[];
  choices: Choice[];
  /**
   * What cannot be of what was asked for.
   */
  problem: string;
}
/**
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "Problems".
 */
export interface Problems {
  problems: Problem[];
}
/**
 * One place of the queue; another user's has neither `id` nor `name`.
 *
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "QueuePlace".
 */
export interface QueuePlace {
  id: string | null;
  is_mine: boolean;
  state: "waiting" | "running" | "done" | "failed" | "cancelled";
  name: string;
}
/**
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "RenameBody".
 */
export interface RenameBody {
  name?: string | null;
  folder?: string | null;
}
/**
 * One picture or video with what made it.
 *
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "Result".
 */
export interface Result {
  id: string;
  node: string;
  kind: "image" | "video";
  name: string;
  width: number;
  height: number;
  frames: number;
  fps: number;
  bytes: number;
  /**
   * Seconds since the epoch.
   */
  time: number;
  prompt: string;
  seed: number | string | null;
  run: string;
  batch: string;
  workflow_name: string;
  workflow_id: string | null;
  params: {
    [k: string]: unknown;
  };
  varied: {
    [k: string]: unknown;
  };
  plan: string;
  seconds: number;
}
/**
 * One run, or with `sweep` (such as `seed=1..4`) one for each combination of values.
 *
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "RunBody".
 */
export interface RunBody {
  /**
   * A workflow file, as `latentloom run` takes it.
   */
  graph: {
    [k: string]: unknown;
  };
  overrides?: {
    [k: string]: boolean | number | string;
  };
  devices?: string;
  plan?: string;
  /**
   * @maxItems 32
   */
  sweep?: string[];
  targets?: string[] | null;
  workflow_id?: string | null;
}
/**
 * What is kept of a run and told of it everywhere. Times are seconds since the epoch.
 *
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "RunFacts".
 */
export interface RunFacts {
  id: string;
  batch: string;
  name: string;
  workflow_id: string | null;
  state: "waiting" | "running" | "done" | "failed" | "cancelled";
  created: number;
  started: number | null;
  ended: number | null;
  seconds: number;
  error: string;
  note: string;
  plan: string;
  /**
   * Its values in its batch; in a list of long texts the beginning.
   */
  varied: {
    [k: string]: unknown;
  };
}
/**
 * What is kept of a run and told of one at a time.
 *
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "RunParts".
 */
export interface RunParts {
  overrides: {
    [k: string]: unknown;
  };
  /**
   * The nodes that it was run to; null is all that make something.
   */
  targets: string[] | null;
  nodes: {
    [k: string]: NodeState;
  };
}
/**
 * One run in a list.
 *
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "RunRow".
 */
export interface RunRow {
  id: string;
  batch: string;
  name: string;
  workflow_id: string | null;
  state: "waiting" | "running" | "done" | "failed" | "cancelled";
  created: number;
  started: number | null;
  ended: number | null;
  seconds: number;
  error: string;
  note: string;
  plan: string;
  /**
   * Its values in its batch; in a list of long texts the beginning.
   */
  varied: {
    [k: string]: unknown;
  };
  done: number;
  total: number;
  /**
   * The least that it takes yet; null until there is a number to trust.
   */
  left_s: number | null;
}
/**
 * One run with all of its nodes.
 *
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "RunWithGraph".
 */
export interface RunWithGraph {
  id: string;
  batch: string;
  name: string;
  workflow_id: string | null;
  state: "waiting" | "running" | "done" | "failed" | "cancelled";
  created: number;
  started: number | null;
  ended: number | null;
  seconds: number;
  error: string;
  note: string;
  plan: string;
  /**
   * Its values in its batch; in a list of long texts the beginning.
   */
  varied: {
    [k: string]: unknown;
  };
  done: number;
  total: number;
  /**
   * The least that it takes yet; null until there is a number to trust.
   */
  left_s: number | null;
  overrides: {
    [k: string]: unknown;
  };
  /**
   * The nodes that it was run to; null is all that make something.
   */
  targets: string[] | null;
  nodes: {
    [k: string]: NodeState;
  };
  /**
   * The workflow with this run's values; null where it was lost.
   */
  graph: GraphFile | null;
  /**
   * Of the packages that made it; empty where its manifest is gone.
   */
  versions: {
    [k: string]: string | null;
  };
}
/**
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "SaveBody".
 */
export interface SaveBody {
  /**
   * A workflow file, as `latentloom run` takes it.
   */
  graph: {
    [k: string]: unknown;
  };
  base_version: number;
}
/**
 * What one request started.
 *
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "Submitted".
 */
export interface Submitted {
  batch: string;
  runs: string[];
}
/**
 * A ready workflow to start from.
 *
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "Template".
 */
export interface Template {
  id: string;
  name: string;
  description: string;
  graph: GraphFile;
}
/**
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "Token".
 */
export interface Token {
  token: string;
}
/**
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "Upload".
 */
export interface Upload {
  /**
   * What Load Image takes.
   */
  path: string;
  name: string;
  width: number;
  height: number;
}
/**
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "UploadRow".
 */
export interface UploadRow {
  /**
   * What Load Image takes.
   */
  path: string;
  bytes: number;
  /**
   * Seconds since the epoch.
   */
  time: number;
}
/**
 * A saved workflow in a list. Times are seconds since the epoch.
 *
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "Workflow".
 */
export interface Workflow {
  id: string;
  name: string;
  folder: string;
  /**
   * The beginning of its description.
   */
  summary: string;
  updated: number;
  version: number;
  num_nodes: number;
  has_thumb: boolean;
}
/**
 * One state of a workflow that was saved.
 *
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "WorkflowVersion".
 */
export interface WorkflowVersion {
  version: number;
  time: number;
  num_nodes: number;
}
/**
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "WorkflowWithGraph".
 */
export interface WorkflowWithGraph {
  id: string;
  name: string;
  folder: string;
  /**
   * The beginning of its description.
   */
  summary: string;
  updated: number;
  version: number;
  num_nodes: number;
  has_thumb: boolean;
  graph: GraphFile;
}
/**
 * This interface was referenced by `Contract`'s JSON-Schema
 * via the `definition` "_Body".
 */
export interface _Body {}
