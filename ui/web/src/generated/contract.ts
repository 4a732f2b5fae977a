/** Made by `npm run types` from `contract.schema.json`, which `ui/contract` defines: change it there. */

import type { Json } from "../types/values";
import type { GraphFile } from "../types/workflow";

/**
 * What server and page say to each other, by its name.
 */
export interface Contract {
  App: App;
  AppCheckBody: AppCheckBody;
  AppForm: AppForm;
  AppGroup: AppGroup;
  AppKnown: AppKnown;
  AppMask: AppMask;
  AppRunBody: AppRunBody;
  AppShape: AppShape;
  AppTokens: AppTokens;
  AppValue: AppValue;
  Board: Board;
  BoardBody: BoardBody;
  BoardRow: BoardRow;
  CancelBody: CancelBody;
  Cancelled: Cancelled;
  Catalog: Catalog;
  CatalogInput: CatalogInput;
  CatalogNode: CatalogNode;
  CheckBody: CheckBody;
  Choice: Choice;
  DeviceNow: DeviceNow;
  Download: Download;
  DownloadBody: DownloadBody;
  Draft: Draft;
  DraftBody: DraftBody;
  DraftWithGraph: DraftWithGraph;
  Empty: Empty;
  ErrorAnswer: ErrorAnswer;
  Factors: Factors;
  FileHash: FileHash;
  FileText: FileText;
  ForeignFacts: ForeignFacts;
  Foreseen: Foreseen;
  GraphBody: GraphBody;
  HashBody: HashBody;
  Hashing: Hashing;
  History: History;
  HistoryRow: HistoryRow;
  HubBody: HubBody;
  HubLook: HubLook;
  Kept: Kept;
  KeptKind: KeptKind;
  LeftOut: LeftOut;
  LiveMessage: LiveMessage;
  LiveRun: LiveRun;
  LoadedPart: LoadedPart;
  LoraFacts: LoraFacts;
  LoraRow: LoraRow;
  LorasView: LorasView;
  MadeFacts: MadeFacts;
  Maker: Maker;
  MarkBody: MarkBody;
  Me: Me;
  ModelFacts: ModelFacts;
  ModelPart: ModelPart;
  ModelRow: ModelRow;
  ModelsView: ModelsView;
  MoveBody: MoveBody;
  NamedGraph: NamedGraph;
  NamedRunBody: NamedRunBody;
  NewWorkflowBody: NewWorkflowBody;
  NoStrategies: NoStrategies;
  NodeState: NodeState;
  NodeUse: NodeUse;
  OutputSpec: OutputSpec;
  PlacedBody: PlacedBody;
  PlanBody: PlanBody;
  PlanMachine: PlanMachine;
  PlanNode: PlanNode;
  PlanRank: PlanRank;
  PlanStrategies: PlanStrategies;
  PlanView: PlanView;
  PosterBody: PosterBody;
  PredictedPlan: PredictedPlan;
  Prediction: Prediction;
  PriorityBody: PriorityBody;
  Problem: Problem;
  Problems: Problems;
  PublishBody: PublishBody;
  Quantized: Quantized;
  QueuePlace: QueuePlace;
  RankWork: RankWork;
  RejectedPlan: RejectedPlan;
  RenameBody: RenameBody;
  Result: Result;
  RunBody: RunBody;
  RunFacts: RunFacts;
  RunParts: RunParts;
  RunRow: RunRow;
  RunWithGraph: RunWithGraph;
  SaveBody: SaveBody;
  ScriptBody: ScriptBody;
  Setting: Setting;
  Sizes: Sizes1;
  SocketsBody: SocketsBody;
  Start: Start;
  Submitted: Submitted;
  TagRow: TagRow;
  Template: Template;
  TemplateNeeds: TemplateNeeds;
  Token: Token;
  TokenCount: TokenCount;
  Tokens: Tokens;
  Took: Took;
  Upload: Upload;
  UploadRow: UploadRow;
  WeightsFile: WeightsFile;
  Words: Words;
  Workflow: Workflow;
  WorkflowVersion: WorkflowVersion;
  WorkflowWithGraph: WorkflowWithGraph;
}
/**
 * The link to an app, for the owner of its workflow.
 */
export interface App {
  token: string;
  workflow_id: string;
  /**
   * As it was published, and so the next two.
   */
  name: string;
  /**
   * Which the app runs, whatever is saved later.
   */
  version: number;
  /**
   * Seconds since the epoch.
   */
  published: number;
  /**
   * The workflow's newest version by now.
   */
  newest: number;
}
export interface AppCheckBody {
  params?: {
    [k: string]: boolean | number | string | (boolean | number | string)[];
  };
  page?: string;
}
/**
 * All that whoever opens an app is told of it: nothing of nodes and links.
 */
export interface AppForm {
  name: string;
  description: string;
  version: number;
  groups: AppGroup[];
  /**
   * The settings that are masks.
   */
  masks: {
    [k: string]: AppMask;
  };
}
/**
 * Settings under one heading; those in none have "".
 */
export interface AppGroup {
  title: string;
  fields: CatalogInput[];
}
/**
 * One input socket of a node.
 */
export interface CatalogInput {
  name: string;
  /**
   * One of "int", "float", "bool", "string", "choice", the name of a value type such as "Latents", or a list of one
   * of these such as "list[float]".
   */
  type: string;
  required: boolean;
  default: boolean | number | string | (boolean | number | string)[] | null;
  choices: string[];
  min: number | null;
  max: number | null;
  step: number | null;
  /**
   * The widget that draws the input; "" is the type's own.
   */
  widget: "" | "seed" | "strength" | "multiline" | "json" | "model" | "lora" | "picture" | "mask" | "audio";
  advanced: boolean;
  /**
   * Whether zero stands for the model's own number.
   */
  auto: boolean;
  help: string;
}
/**
 * How a mask that is a setting is read, and the picture that it lies over, if there is one.
 */
export interface AppMask {
  channel: AppValue;
  picture: AppValue;
}
/**
 * Of a place in the workflow: what the setting of this name has, or the value that stands there.
 */
export interface AppValue {
  setting: string;
  value: string;
}
/**
 * What is known of an app's settings before a run.
 */
export interface AppKnown {
  /**
   * What 0, "" and "auto" will be.
   */
  values: {
    [k: string]: Json;
  };
  shapes: {
    [k: string]: AppShape;
  };
}
/**
 * A setting is the height of a picture, and another one its width.
 */
export interface AppShape {
  width: string;
  sizes: Sizes;
}
/**
 * Which the model paints.
 */
export interface Sizes {
  /**
   * Its own.
   */
  width: number;
  height: number;
  /**
   * Of which both sides must be.
   */
  multiple: number;
  /**
   * Beyond which it paints nothing sensible; 0 where nobody says so.
   */
  most_side: number;
  /**
   * Whether a picture's shape stands for a size of zero, at the model's own area.
   */
  has_shape: boolean;
}
/**
 * What whoever opens an app may say: the values of its settings, and nothing else.
 */
export interface AppRunBody {
  params?: {
    [k: string]: boolean | number | string | (boolean | number | string)[];
  };
}
export interface AppTokens {
  /**
   * What text encoders make of each setting that they read, the one with the least room first.
   */
  tokens: {
    [k: string]: TokenCount[];
  };
}
/**
 * What one text encoder makes of a prompt.
 */
export interface TokenCount {
  /**
   * The component's name.
   */
  tokenizer: string;
  /**
   * With special ones and the template, without padding.
   */
  num_tokens: number;
  /**
   * How many of them are read; 0 is all.
   */
  limit: number;
  /**
   * How many an empty prompt would be.
   */
  num_own: number;
  /**
   * The words that are not read, or not whole.
   */
  cut: string;
  /**
   * The words that a toy model cannot know.
   */
  unknown: string[];
}
/**
 * A named set of results; one result may be on several.
 */
export interface Board {
  id: string;
  name: string;
  /**
   * Seconds since the epoch.
   */
  created: number;
}
export interface BoardBody {
  name: string;
}
/**
 * A board in a list.
 */
export interface BoardRow {
  id: string;
  name: string;
  /**
   * Seconds since the epoch.
   */
  created: number;
  count: number;
  /**
   * The id of its newest result.
   */
  cover: string | null;
}
export interface CancelBody {
  runs: [string, ...string[]] | null;
}
/**
 * What one request cancelled: runs that waited are over, those under way end at their next step.
 */
export interface Cancelled {
  runs: string[];
}
export interface Catalog {
  /**
   * What changes when any node does.
   */
  version: string;
  nodes: CatalogNode[];
  types: string[];
}
/**
 * One node, as `latentloom nodes --json` has it.
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
   * Where a node from outside comes from, and its version; empty for ours.
   */
  origin: string;
  /**
   * Whether the node acts, and so runs although nothing asks for its value.
   */
  is_output: boolean;
  uses_device: boolean;
  /**
   * Whether what the node gives is kept; else it holds for this machine and this run only.
   */
  is_kept: boolean;
  /**
   * The inputs that decide which others the node has, and which outputs (`POST /sockets`); these are always there.
   */
  chosen_by: string[];
}
export interface OutputSpec {
  name: string;
  type: string;
  help: string;
}
export interface CheckBody {
  /**
   * A workflow file.
   */
  graph: GraphFile;
  overrides?: {
    [k: string]: boolean | number | string | (boolean | number | string)[];
  };
  page?: string;
}
/**
 * One plan on some devices; `fits` is None where a device's memory is not known.
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
 */
export interface DeviceNow {
  name: string;
  title: string;
  total_bytes: number;
  used_bytes: number;
  load: number | null;
}
/**
 * One model that the user had fetched. Bytes and files are those that are there.
 */
export interface Download {
  id: string;
  model: string;
  revision: string;
  commit: string;
  licence: string;
  state: "waiting" | "fetching" | "done" | "failed" | "cancelled";
  done_bytes: number;
  total_bytes: number;
  done_files: number;
  total_files: number;
  /**
   * Of late; null where nobody can tell.
   */
  bytes_per_s: number | null;
  left_s: number | null;
  /**
   * How many of this server's go first.
   */
  num_before: number;
  /**
   * Why it failed, in a sentence.
   */
  error: string;
  code: string;
}
export interface DownloadBody {
  id: string;
  revision?: string;
  commit: string;
}
/**
 * What a page had on its canvas last.
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
export interface DraftBody {
  /**
   * A workflow file.
   */
  graph: GraphFile;
  workflow_id?: string | null;
  base_version?: number | null;
}
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
   * What was on the canvas; it need not be a sound workflow.
   */
  graph: GraphFile;
}
/**
 * `{}`
 */
export interface Empty {}
export interface ErrorAnswer {
  /**
   * One sentence for people.
   */
  error: string;
  /**
   * What it is, for programs: one of those that `latentloom.parallel.errors` and `latentloom.ui.errors` name.
   */
  code: string;
  /**
   * All that is wrong with a workflow.
   */
  problems?: Problem[];
  /**
   * How the sentences in it were made, by each; in any other answer, too, that has such sentences.
   */
  said?: {
    [k: string]: Words;
  };
}
/**
 * One fault. `node` and `socket` are empty where the fault belongs to the whole file.
 */
export interface Problem {
  node: string;
  socket: string;
  code: string;
  message: string;
  kind: "error" | "estimate" | "unknown";
  /**
   * Values that mend it, each a set of them by node.socket, the nearest first.
   */
  mends: {
    [k: string]: Json;
  }[];
  /**
   * Where it lies inside of a sub-workflow or a for-each, of which `node` is the file's: paint/3/denoise.steps.
   */
  inside: string;
}
/**
 * How a sentence was made, for who says it in another language.
 */
export interface Words {
  /**
   * Its English, with `{}` for each value.
   */
  text_id: string;
  /**
   * As they stand in the sentence; one may be a sentence itself.
   */
  values: string[];
}
/**
 * By what the seconds of a prediction were multiplied, as earlier runs taught.
 */
export interface Factors {
  step: number;
  text: number;
  decode: number;
  /**
   * From which this is known.
   */
  num_runs: number;
  /**
   * Whether they were runs of the same class of model and dtype, or of any on this machine.
   */
  basis: "" | "model" | "machine";
}
/**
 * One file of weights, once it was read whole.
 */
export interface FileHash {
  name: string;
  num_bytes: number;
  sha256: string;
}
export interface FileText {
  text: string;
}
/**
 * What a picture of another program says of how it was made: read, never run. What it does not say is empty.
 */
export interface ForeignFacts {
  /**
   * The program's name.
   */
  tool: string;
  prompt: string;
  negative_prompt: string;
  seed: number | string | null;
  steps: number | null;
  guidance: number | null;
  sampler: string;
  scheduler: string;
  model: string;
  loras: string[];
  strength: number | null;
  width: number | null;
  height: number | null;
  /**
   * What else it says, by the program's own words.
   */
  more: {
    [k: string]: string;
  };
}
/**
 * What a run is predicted to take by a plan, in seconds with warm ranks, before it begins.
 */
export interface Foreseen {
  plan: string;
  /**
   * Why this plan, in plain words.
   */
  why: string;
  machine: string;
  /**
   * Whether this machine's own measurements are under it, or data sheets.
   */
  is_measured: boolean;
  /**
   * Whether its speed is only assumed: predictions learn from such seconds, and they are told to nobody.
   */
  is_assumed: boolean;
  steps: number;
  step_s: number;
  text_s: number;
  decode_s: number;
  /**
   * Before the first, to read the weights.
   */
  load_s: number;
  /**
   * On the device that holds most.
   */
  num_bytes: number;
  /**
   * Of them, what an accelerator's context and libraries take, which no run's measurement counts.
   */
  context_bytes: number;
  /**
   * Other plans, the seconds of one of their steps, and why not.
   */
  rejected: [unknown, unknown, unknown][];
  factors: Factors1;
  /**
   * Without one nothing is learned from the run.
   */
  setting: Setting | null;
}
/**
 * Those that are in these seconds already.
 */
export interface Factors1 {
  step: number;
  text: number;
  decode: number;
  /**
   * From which this is known.
   */
  num_runs: number;
  /**
   * Whether they were runs of the same class of model and dtype, or of any on this machine.
   */
  basis: "" | "model" | "machine";
}
/**
 * What a prediction is for, as runs of this machine are compared by it later: no prompt, no path.
 */
export interface Setting {
  /**
   * A name of its devices and of the rates that they are predicted by.
   */
  machine: string;
  model: string;
  /**
   * Of its transformer.
   */
  class_name: string;
  fingerprint: string;
  dtype: string;
  quantization: string;
  engine: string;
  width: number;
  height: number;
  frames: number;
  batch: number;
  /**
   * Padding included.
   */
  text_tokens: number;
}
export interface GraphBody {
  /**
   * A workflow file.
   */
  graph: GraphFile;
}
/**
 * A model of a run: the node that gave it.
 */
export interface HashBody {
  run: string;
  node: string;
}
/**
 * The files of a model being hashed in the background.
 */
export interface Hashing {
  id: string;
  source: string;
  state: "waiting" | "running" | "done" | "failed" | "cancelled";
  done_bytes: number;
  total_bytes: number;
  files: FileHash[];
  /**
   * Why it failed, in a sentence.
   */
  error: string;
}
export interface History {
  rows: HistoryRow[];
}
/**
 * How well one model's runs by one plan were predicted. A ratio is what a step took to what was predicted.
 */
export interface HistoryRow {
  model: string;
  plan: string;
  machine: string;
  dtype: string;
  num_runs: number;
  median: number;
  /**
   * The ratio that is furthest from 1, either way.
   */
  worst: number;
  last: number;
  last_day: string;
  /**
   * Of a step; the next is what it took.
   */
  last_predicted_s: number;
  last_took_s: number;
}
export interface HubBody {
  id: string;
  revision?: string;
}
/**
 * A model on the hub, without its weights; `problem` is why it cannot be fetched, or not now.
 */
export interface HubLook {
  id: string;
  revision: string;
  commit: string;
  /**
   * As its makers name it; empty where they do not.
   */
  licence: string;
  /**
   * Its text, where they say where.
   */
  licence_url: string;
  /**
   * Whether its makers ask for their terms to be accepted on the hub first.
   */
  is_gated: boolean;
  family: string;
  /**
   * What its family makes of what.
   */
  does: string;
  num_files: number;
  /**
   * Of all that a run needs.
   */
  num_bytes: number;
  /**
   * Of these, what is on the server's disk already.
   */
  had_bytes: number;
  /**
   * What the disk takes yet.
   */
  free_bytes: number;
  /**
   * What the user may keep yet; null where that is not counted.
   */
  room_bytes: number | null;
  problem: string;
  code: string;
}
/**
 * What a user keeps on the server's disk, and how much that may be.
 */
export interface Kept {
  /**
   * Of what is counted.
   */
  num_bytes: number;
  most_bytes: number;
  /**
   * How much the disk itself still takes, whoever asks.
   */
  free_bytes: number;
  kinds: KeptKind[];
}
/**
 * All things of one kind that a user keeps.
 */
export interface KeptKind {
  kind: "workflows" | "drafts" | "uploads" | "runs" | "results" | "boards" | "models";
  num_bytes: number;
  count: number;
  most_count: number;
  /**
   * Whether their bytes count: results and models do where there is a login.
   */
  is_counted: boolean;
}
/**
 * A point of a sweep that is not begun, and why.
 */
export interface LeftOut {
  varied: {
    [k: string]: Json;
  };
  problems: Problem[];
}
/**
 * One message of the WebSocket: what changed since the last one; all of it where `full`.
 */
export interface LiveMessage {
  seq: number;
  full: boolean;
  /**
   * Milliseconds since the epoch of the newest event in it.
   */
  t: number;
  /**
   * A random id of the server process; another one means that it was restarted.
   */
  server: string;
  runs: {
    [k: string]: LiveRun;
  };
  removed: string[];
  /**
   * Counts the changes of the user's workflows.
   */
  library: number;
  /**
   * Counts the changes of the user's results.
   */
  results: number;
  /**
   * Counts the changes of the user's downloads, at most one a second.
   */
  downloads: number;
  /**
   * Left out where it did not change.
   */
  queue?: QueuePlace[];
  /**
   * Left out where they did not change.
   */
  devices?: DeviceNow[];
}
/**
 * One run as the WebSocket tells it: all of its facts, and those of its nodes that changed.
 */
export interface LiveRun {
  id: string;
  batch: string;
  name: string;
  workflow_id: string | null;
  state: "waiting" | "running" | "done" | "failed" | "cancelled";
  priority: "next" | "normal" | "idle";
  created: number;
  started: number | null;
  ended: number | null;
  seconds: number;
  error: string;
  /**
   * The error's, for programs (parallel/errors.py).
   */
  code: string;
  note: string;
  plan: string;
  /**
   * The values that differ in the run's batch; in a list of long texts the beginning.
   */
  varied: {
    [k: string]: Json;
  };
  done: number;
  total: number;
  /**
   * Seconds that the run takes yet, as they were at `left_at`; null until there is a number to trust.
   */
  left_s: number | null;
  /**
   * In seconds since the epoch on the server's clock.
   */
  left_at: number;
  /**
   * Whether something is yet to come of which nobody knows how long it takes.
   */
  is_left_least: boolean;
  num_results: number;
  /**
   * Its id.
   */
  newest_result: string | null;
  overrides: {
    [k: string]: Json;
  };
  /**
   * The nodes that the run goes to; null is all that make something.
   */
  targets: string[] | null;
  nodes: {
    [k: string]: NodeState;
  };
}
/**
 * One node of a run. Times are seconds.
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
   * Seconds that the node takes yet, as they were at `left_at`; null where no prediction and no steps tell.
   */
  left_s: number | null;
  /**
   * The same of all that the run has yet to do on the device.
   */
  run_left_s: number | null;
  /**
   * When both were told, in seconds since the epoch on the server's clock; 0 before.
   */
  left_at: number;
  phase: string;
  /**
   * The failure's sentence, or why the node was skipped or cached.
   */
  message: string;
  /**
   * The failure's, for programs (parallel/errors.py).
   */
  code: string;
  cached: "" | "memory" | "disk" | "shared" | "unneeded";
  /**
   * Counts the previews; 0 before the first.
   */
  preview: number;
  plan: string;
  ranks: RankWork[];
  /**
   * Of a denoise that has begun: what it and the run around it are predicted to take; null where nobody can tell.
   */
  foreseen: Foreseen | null;
  /**
   * What was predicted, as it was measured; once the run is over.
   */
  took: Took | null;
  /**
   * The plan and the prediction in plain words; once the run is over, how well it did.
   */
  outlook: string;
  /**
   * The ids of the results that the node made.
   */
  files: string[];
  /**
   * Those of them that are heard, not seen.
   */
  sounds: string[];
}
/**
 * What one rank did in one stage, or this process where it works alone.
 */
export interface RankWork {
  /**
   * The rank's number among those that work together, or could.
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
   * The most memory in use, of the accelerator or else of the process; loading counts, and what was done beside the
   * stage.
   */
  peak_memory_bytes: number;
  /**
   * Of it, what the process had before its first stage: Python and libraries. 0 on an accelerator.
   */
  idle_bytes: number;
  /**
   * What a self-check found of the plan with this model on this machine; empty where none was made.
   */
  known: string;
  /**
   * By which ranks that share a sequence have attended; empty where torch chose, as it does on one device.
   */
  kernels: string[];
}
/**
 * What was measured of a denoise, and of the text and the decoding beside it; None where it was not done, or was
 * cold.
 */
export interface Took {
  steps: number;
  /**
   * The median of the steps after the first; None where there was one only.
   */
  step_s: number | null;
  /**
   * All of them, the first included.
   */
  steps_s: number;
  text_s: number | null;
  decode_s: number | null;
  /**
   * On the device that held most, its context left out: on a CPU beyond what an idle rank has; 0 where it was not
   * measured.
   */
  num_bytes: number;
  /**
   * Whether the machine had too much else to do.
   */
  is_busy: boolean;
}
/**
 * One place of the queue; another user's has neither `id` nor `name`.
 */
export interface QueuePlace {
  id: string | null;
  is_mine: boolean;
  state: "waiting" | "running" | "done" | "failed" | "cancelled";
  name: string;
  priority: "next" | "normal" | "idle";
  /**
   * Seconds that it takes yet, as they were at `left_at`; null where nobody knows.
   */
  left_s: number | null;
  /**
   * In seconds since the epoch on the server's clock; 0 of a run that waits, whose seconds do not pass yet.
   */
  left_at: number;
}
/**
 * One part of a model that is in memory.
 */
export interface LoadedPart {
  name: string;
  component: string;
  device: string;
  bytes: number;
}
/**
 * One LoRA on a model.
 */
export interface LoraFacts {
  name: string;
  scale: number;
  /**
   * Of the whole file; empty where it could not be read.
   */
  sha256: string;
}
/**
 * One LoRA. What it tells of itself is anybody's: plain text of one line, cut.
 */
export interface LoraRow {
  id: string;
  /**
   * What Load LoRA takes.
   */
  path: string;
  /**
   * The file's name without its ending.
   */
  name: string;
  /**
   * Where it lies in its folder of models; empty at the top.
   */
  folder: string;
  bytes: number;
  /**
   * That of most of its layers; 0 where it has none.
   */
  rank: number;
  /**
   * The model that it names; empty where it names none.
   */
  made_for: string;
  /**
   * Words that call it up in a prompt.
   */
  triggers: string[];
  title: string;
  author: string;
  licence: string;
  has_picture: boolean;
  /**
   * Whether it fits the model that was asked for: its layers do, what it says it is for does, nobody knows, or no.
   */
  verdict: "fits" | "likely" | "unknown" | "other";
  /**
   * Why it does not fit, or is refused whatever the model; empty where it may fit.
   */
  why: string;
}
/**
 * The LoRAs of this server, those first that fit.
 */
export interface LorasView {
  loras: LoraRow[];
  /**
   * Whether all files were looked at: else there were too many for one look, and the next sees more.
   */
  is_whole: boolean;
  /**
   * Why nobody can say which fit the model that was asked for; empty where they can, or none was.
   */
  problem: string;
}
/**
 * What is kept of a picture, video or sound that a run made, and told of it. A sound has no sides.
 */
export interface MadeFacts {
  id: string;
  node: string;
  /**
   * The node whose picture it is, where `node` saved a batch of several nodes' pictures.
   */
  part: string;
  kind: "image" | "video" | "audio";
  name: string;
  width: number;
  height: number;
  frames: number;
  fps: number;
  /**
   * Samples a second of a sound, or of a video's; 0 is silence.
   */
  rate: number;
  channels: number;
  /**
   * Of a sound, in seconds.
   */
  length_s: number;
  /**
   * The frame, from 0, that stands for a video.
   */
  poster: number;
  bytes: number;
  /**
   * Seconds since the epoch.
   */
  time: number;
  prompt: string;
  seed: number | string | null;
  /**
   * The sources of the models behind it.
   */
  models: string[];
  is_starred: boolean;
  tags: string[];
  /**
   * The ids of the boards that it is on.
   */
  boards: string[];
}
/**
 * The name of workflows that made results, and how many.
 */
export interface Maker {
  name: string;
  count: number;
}
/**
 * What changes of some results at once.
 */
export interface MarkBody {
  /**
   * @minItems 1
   * @maxItems 1000
   */
  ids: [string, ...string[]];
  star?: boolean | null;
  /**
   * @maxItems 32
   */
  add_tags?: string[];
  /**
   * @maxItems 32
   */
  remove_tags?: string[];
  /**
   * @maxItems 32
   */
  add_boards?: string[];
  /**
   * @maxItems 32
   */
  remove_boards?: string[];
}
/**
 * Who asks, and what this server allows.
 */
export interface Me {
  user: string;
  has_auth: boolean;
  version: string;
  output_dir_name: string;
  max_upload_bytes: number;
  /**
   * How many runs of one user may wait at a time.
   */
  most_waiting: number;
  /**
   * Whether pages may have models fetched from the hub.
   */
  allows_downloads: boolean;
  /**
   * Pictures and sounds that templates come with, by the names by which workflows load them.
   */
  template_files: string[];
}
/**
 * A model as a run had it.
 */
export interface ModelFacts {
  source: string;
  family: string;
  /**
   * The commit of a hub model; empty for any other.
   */
  revision: string;
  fingerprint: string;
  dtype: string;
  quantization: string;
  loras: LoraFacts[];
  /**
   * Of a model without LoRAs: those of one with them are told where it was loaded.
   */
  files: WeightsFile[];
}
/**
 * One file of weights.
 */
export interface WeightsFile {
  /**
   * Below the model's folder; of a single file its own name.
   */
  name: string;
  num_bytes: number;
  /**
   * Of the header alone, which names each tensor, its type and its shape.
   */
  header_sha256: string;
}
/**
 * One component with weights.
 */
export interface ModelPart {
  name: string;
  class_name: string;
  num_bytes: number;
  num_parameters: number;
  /**
   * In which number formats its weights are in the files, that of most bytes first.
   */
  dtypes: string[];
  /**
   * How many tokens of a prompt it reads at most, 0 for all; none where nobody knows, or it reads none.
   */
  tokens: number | null;
}
/**
 * One model; `plans` are those for the first device, two, four and so on, up to all.
 */
export interface ModelRow {
  name: string;
  family: string;
  num_bytes: number;
  location: string;
  revision: string;
  problem: string;
  does: string;
  compared: string;
  strategies: string[];
  /**
   * Why the tokens of its transformer cannot be split; guidance can be in any case.
   */
  split_problem: string;
  plans: Choice[];
  /**
   * The same plans with each quantization that this machine can do.
   */
  quantized: Quantized[];
  parts: ModelPart[];
}
/**
 * The plans of a model whose transformer and text encoders are loaded in fewer bits.
 */
export interface Quantized {
  quantization: string;
  plans: Choice[];
}
export interface ModelsView {
  models: ModelRow[];
  devices: DeviceNow[];
  loaded: LoadedPart[];
}
/**
 * Null is the end of the queue.
 */
export interface MoveBody {
  before: string | null;
}
export interface NamedGraph {
  name: string;
  /**
   * A workflow file.
   */
  graph: GraphFile;
}
/**
 * One run of a workflow by its name, or with `sweep` (such as `seed=1..4`) one for each combination of values.
 */
export interface NamedRunBody {
  params?: {
    [k: string]: boolean | number | string | (boolean | number | string)[];
  };
  /**
   * @maxItems 32
   */
  sweep?: string[];
  priority?: "next" | "normal" | "idle";
  force?: boolean;
}
export interface NewWorkflowBody {
  /**
   * A workflow file.
   */
  graph: GraphFile;
  name?: string | null;
  folder?: string;
}
/**
 * `{}`: there is no plan.
 */
export interface NoStrategies {}
/**
 * Where a node can be seen at work.
 */
export interface NodeUse {
  /**
   * The smallest workflow that shows it; null for a node from outside.
   */
  example: Template | null;
  /**
   * The node in the example.
   */
  node: string;
  /**
   * Of the example.
   */
  needs: TemplateNeeds | null;
  /**
   * The ids of the ready workflows that have such a node.
   */
  templates: string[];
}
/**
 * A ready workflow to start from.
 */
export interface Template {
  id: string;
  name: string;
  description: string;
  /**
   * A workflow file.
   */
  graph: GraphFile;
}
/**
 * What a ready workflow needs to run here.
 */
export interface TemplateNeeds {
  id: string;
  runs: boolean;
  /**
   * The model that is not here; empty where something else is missing, or nothing.
   */
  model: string;
  /**
   * What keeps it from running, or may do so; empty where it runs.
   */
  why: string;
  /**
   * Whether that model would fit this machine, and how, by its known size; empty where that is not known.
   */
  fit: string;
}
export interface PlacedBody {
  /**
   * A workflow file.
   */
  graph: GraphFile;
  overrides?: {
    [k: string]: boolean | number | string | (boolean | number | string)[];
  };
  devices?: string;
  plan?: string;
}
export interface PlanBody {
  /**
   * A workflow file.
   */
  graph: GraphFile;
  overrides?: {
    [k: string]: boolean | number | string | (boolean | number | string)[];
  };
  devices?: string;
  plan?: string;
  page?: string;
  machine?: string;
}
/**
 * What a plan is predicted for.
 */
export interface PlanMachine {
  name: string;
  title: string;
  num_devices: number;
  /**
   * Of each device; on a CPU, of all ranks together.
   */
  memory_bytes: number;
  /**
   * Whether its own measurements are under the predictions, or data sheets.
   */
  is_measured: boolean;
  /**
   * Whether no data sheet tells of it either.
   */
  is_assumed: boolean;
}
/**
 * How one denoise would run, or `problem`: why it cannot.
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
   * The bytes of the whole model's weights.
   */
  need_bytes: number;
  problem: string;
  /**
   * Null where nobody can tell, as of a pipeline that is run whole.
   */
  prediction: Prediction | null;
}
/**
 * The degrees of a plan.
 */
export interface PlanStrategies {
  cfg: number;
  layers: number;
  ulysses: number;
  ring: number;
  allgather: number;
  weights: number;
  text: string;
}
/**
 * What one rank would need; `fits` is null where nobody can tell.
 */
export interface PlanRank {
  rank: number;
  device: string;
  bytes: number;
  fits: boolean | null;
}
/**
 * What one denoise, and the run around it, are predicted to take by a plan, in seconds; null where they would
 * follow from what is assumed of the machine alone.
 */
export interface Prediction {
  machine: PlanMachine;
  plan: string;
  /**
   * Empty for one that was written by hand, or does not fit.
   */
  why: string;
  num_devices: number;
  steps: number;
  step_s: number | null;
  /**
   * Of all steps.
   */
  steps_s: number | null;
  text_s: number | null;
  decode_s: number | null;
  /**
   * Of text, steps and decoding.
   */
  seconds: number | null;
  /**
   * Before the first run, to read the weights.
   */
  load_s: number | null;
  /**
   * On the device that holds most.
   */
  bytes: number;
  lacking_bytes: number;
  rejected: RejectedPlan[];
  /**
   * The fastest first, the best of each kind.
   */
  plans: PredictedPlan[];
  /**
   * What to change so that a plan fits.
   */
  remedy: string;
  /**
   * What would make it faster.
   */
  hint: string;
}
/**
 * A plan that is not taken, with the seconds of a step, and why not.
 */
export interface RejectedPlan {
  plan: string;
  step_s: number | null;
  why: string;
}
/**
 * One of all plans, with the seconds of a run.
 */
export interface PredictedPlan {
  plan: string;
  num_devices: number;
  seconds: number | null;
  /**
   * On the device that holds most.
   */
  bytes: number;
  /**
   * What does not fit there.
   */
  lacking_bytes: number;
  /**
   * Whether it is the one whose numbers are told.
   */
  is_shown: boolean;
}
export interface PlanView {
  devices: DeviceNow[];
  nodes: PlanNode[];
  choices: Choice[];
  /**
   * What cannot be of what was asked for.
   */
  problem: string;
  /**
   * Names of machines that one does not have, to plan for.
   */
  examples: string[];
}
export interface PosterBody {
  frame: number;
}
export interface PriorityBody {
  /**
   * @minItems 1
   * @maxItems 1000
   */
  runs: [string, ...string[]];
  priority: "next" | "normal" | "idle";
}
export interface Problems {
  problems: Problem[];
  /**
   * What 0, "" and "auto" will be, by node and socket, as far as it is known before the run.
   */
  values: {
    [k: string]: {
      [k: string]: Json;
    };
  };
  /**
   * Which sizes the models of nodes with a canvas paint, by node.
   */
  sizes: {
    [k: string]: Sizes1;
  };
}
/**
 * Which sizes a node's model paints, in pixels.
 */
export interface Sizes1 {
  /**
   * Its own.
   */
  width: number;
  height: number;
  /**
   * Of which both sides must be.
   */
  multiple: number;
  /**
   * Beyond which it paints nothing sensible; 0 where nobody says so.
   */
  most_side: number;
  /**
   * Whether a picture's shape stands for a size of zero, at the model's own area.
   */
  has_shape: boolean;
}
export interface PublishBody {
  version: number;
}
export interface RenameBody {
  name?: string | null;
  folder?: string | null;
}
/**
 * One picture, video or sound with what made it.
 */
export interface Result {
  id: string;
  node: string;
  /**
   * The node whose picture it is, where `node` saved a batch of several nodes' pictures.
   */
  part: string;
  kind: "image" | "video" | "audio";
  name: string;
  width: number;
  height: number;
  frames: number;
  fps: number;
  /**
   * Samples a second of a sound, or of a video's; 0 is silence.
   */
  rate: number;
  channels: number;
  /**
   * Of a sound, in seconds.
   */
  length_s: number;
  /**
   * The frame, from 0, that stands for a video.
   */
  poster: number;
  bytes: number;
  /**
   * Seconds since the epoch.
   */
  time: number;
  prompt: string;
  seed: number | string | null;
  /**
   * The sources of the models behind it.
   */
  models: string[];
  is_starred: boolean;
  tags: string[];
  /**
   * The ids of the boards that it is on.
   */
  boards: string[];
  run: string;
  batch: string;
  workflow_name: string;
  workflow_id: string | null;
  params: {
    [k: string]: Json;
  };
  varied: {
    [k: string]: Json;
  };
  plan: string;
  seconds: number;
}
/**
 * One run, or with `sweep` (such as `seed=1..4`) one for each combination of values.
 */
export interface RunBody {
  /**
   * A workflow file.
   */
  graph: GraphFile;
  overrides?: {
    [k: string]: boolean | number | string | (boolean | number | string)[];
  };
  devices?: string;
  plan?: string;
  force?: boolean;
  /**
   * @maxItems 32
   */
  sweep?: string[];
  targets?: string[] | null;
  workflow_id?: string | null;
  priority?: "next" | "normal" | "idle";
}
/**
 * What is kept of a run and told of it everywhere. Times are seconds since the epoch.
 */
export interface RunFacts {
  id: string;
  batch: string;
  name: string;
  workflow_id: string | null;
  state: "waiting" | "running" | "done" | "failed" | "cancelled";
  priority: "next" | "normal" | "idle";
  created: number;
  started: number | null;
  ended: number | null;
  seconds: number;
  error: string;
  /**
   * The error's, for programs (parallel/errors.py).
   */
  code: string;
  note: string;
  plan: string;
  /**
   * The values that differ in the run's batch; in a list of long texts the beginning.
   */
  varied: {
    [k: string]: Json;
  };
}
/**
 * What is kept of a run and told of one at a time.
 */
export interface RunParts {
  overrides: {
    [k: string]: Json;
  };
  /**
   * The nodes that the run goes to; null is all that make something.
   */
  targets: string[] | null;
  nodes: {
    [k: string]: NodeState;
  };
}
/**
 * One run in a list.
 */
export interface RunRow {
  id: string;
  batch: string;
  name: string;
  workflow_id: string | null;
  state: "waiting" | "running" | "done" | "failed" | "cancelled";
  priority: "next" | "normal" | "idle";
  created: number;
  started: number | null;
  ended: number | null;
  seconds: number;
  error: string;
  /**
   * The error's, for programs (parallel/errors.py).
   */
  code: string;
  note: string;
  plan: string;
  /**
   * The values that differ in the run's batch; in a list of long texts the beginning.
   */
  varied: {
    [k: string]: Json;
  };
  done: number;
  total: number;
  /**
   * Seconds that the run takes yet, as they were at `left_at`; null until there is a number to trust.
   */
  left_s: number | null;
  /**
   * In seconds since the epoch on the server's clock.
   */
  left_at: number;
  /**
   * Whether something is yet to come of which nobody knows how long it takes.
   */
  is_left_least: boolean;
  num_results: number;
  /**
   * Its id.
   */
  newest_result: string | null;
}
/**
 * One run with all of its nodes.
 */
export interface RunWithGraph {
  id: string;
  batch: string;
  name: string;
  workflow_id: string | null;
  state: "waiting" | "running" | "done" | "failed" | "cancelled";
  priority: "next" | "normal" | "idle";
  created: number;
  started: number | null;
  ended: number | null;
  seconds: number;
  error: string;
  /**
   * The error's, for programs (parallel/errors.py).
   */
  code: string;
  note: string;
  plan: string;
  /**
   * The values that differ in the run's batch; in a list of long texts the beginning.
   */
  varied: {
    [k: string]: Json;
  };
  done: number;
  total: number;
  /**
   * Seconds that the run takes yet, as they were at `left_at`; null until there is a number to trust.
   */
  left_s: number | null;
  /**
   * In seconds since the epoch on the server's clock.
   */
  left_at: number;
  /**
   * Whether something is yet to come of which nobody knows how long it takes.
   */
  is_left_least: boolean;
  num_results: number;
  /**
   * Its id.
   */
  newest_result: string | null;
  overrides: {
    [k: string]: Json;
  };
  /**
   * The nodes that the run goes to; null is all that make something.
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
   * The versions of the packages that made it; empty where its manifest is gone, and so are the next.
   */
  versions: {
    [k: string]: string | null;
  };
  /**
   * What 0, "" and "auto" were in the run, by node and socket.
   */
  values: {
    [k: string]: {
      [k: string]: Json;
    };
  };
  /**
   * Every plain input as it was in the run, by node and socket, with the beginnings of long texts.
   */
  inputs: {
    [k: string]: {
      [k: string]: Json;
    };
  };
  /**
   * The models that nodes gave.
   */
  models: {
    [k: string]: ModelFacts;
  };
}
export interface SaveBody {
  /**
   * A workflow file.
   */
  graph: GraphFile;
  base_version: number;
}
export interface ScriptBody {
  /**
   * A workflow file.
   */
  graph: GraphFile;
  targets?: string[] | null;
}
/**
 * A node whose sockets depend on what is given at some of them, and what is given there.
 */
export interface SocketsBody {
  type: string;
  values: {
    [k: string]: string;
  };
}
/**
 * What a page begins with, in one answer.
 */
export interface Start {
  me: Me;
  /**
   * The newest, at most as many as a list's page may have.
   */
  drafts: Draft[];
  /**
   * The first of them, whole; null where there is none.
   */
  newest: DraftWithGraph | null;
}
/**
 * What one request started, and the points of its sweep that cannot be made.
 */
export interface Submitted {
  batch: string;
  runs: string[];
  /**
   * The first of them; the next is how many there are.
   */
  left_out: LeftOut[];
  num_left_out: number;
  /**
   * Into how many groups the sweep puts the devices, and why; empty where that is not chosen.
   */
  shared_out: string;
}
/**
 * A tag, and how many results have it.
 */
export interface TagRow {
  tag: string;
  count: number;
}
export interface Token {
  token: string;
}
export interface Tokens {
  /**
   * What the text encoders make of each text that one reads, by node and socket, the one with the least room first;
   * none where that is not known.
   */
  tokens: {
    [k: string]: {
      [k: string]: TokenCount[];
    };
  };
}
export interface Upload {
  /**
   * What Load Image, Load Audio or Load Video takes.
   */
  path: string;
  name: string;
  kind: "image" | "audio" | "video";
  width: number;
  height: number;
  /**
   * Of a sound, in seconds; a sound has no sides.
   */
  length_s: number;
}
export interface UploadRow {
  /**
   * What Load Image, Load Audio or Load Video takes.
   */
  path: string;
  kind: "image" | "audio" | "video";
  bytes: number;
  /**
   * Seconds since the epoch.
   */
  time: number;
}
/**
 * A saved workflow in a list. Times are seconds since the epoch.
 */
export interface Workflow {
  id: string;
  name: string;
  folder: string;
  /**
   * The beginning of the workflow's description.
   */
  summary: string;
  updated: number;
  version: number;
  num_nodes: number;
  has_thumb: boolean;
}
/**
 * One state of a workflow that was saved.
 */
export interface WorkflowVersion {
  version: number;
  time: number;
  num_nodes: number;
}
export interface WorkflowWithGraph {
  id: string;
  name: string;
  folder: string;
  /**
   * The beginning of the workflow's description.
   */
  summary: string;
  updated: number;
  version: number;
  num_nodes: number;
  has_thumb: boolean;
  /**
   * A workflow file.
   */
  graph: GraphFile;
}
