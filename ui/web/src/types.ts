/** The bodies that page and server exchange, as the server defines them, and the graph as the editor holds it. */

import type {
  CatalogNode,
  Catalog as Told,
  LiveRun,
  NodeState,
  PlanBody,
  Problem,
  Problems as Checked,
  RunBody,
  UploadRow,
} from "./generated/contract";
import type { Json } from "./types/values";

export type {
  App,
  AppForm,
  AppKnown,
  AppTokens,
  Board,
  BoardRow,
  CatalogInput as InputSpec,
  CatalogNode as NodeSpec,
  Choice as PlanChoice,
  DeviceNow as Device,
  Download,
  Draft as DraftEntry,
  DraftBody as Draft,
  ForeignFacts,
  Hashing,
  HubLook,
  History,
  HistoryRow,
  Kept,
  KeptKind,
  Maker,
  MarkBody,
  ModelFacts,
  ModelPart,
  TagRow,
  LiveMessage,
  LiveRun as Run,
  LoadedPart,
  LoraRow as LoraEntry,
  LorasView,
  Me,
  ModelRow as ModelEntry,
  ModelsView,
  NamedGraph,
  NodeState,
  NodeUse,
  OutputSpec,
  PlanMachine,
  PlanNode,
  PlanRank,
  PlanStrategies,
  PlanView,
  PredictedPlan,
  Prediction,
  Problem,
  Problems as Checked,
  Quantized,
  QueuePlace as QueueEntry,
  RankWork,
  Result,
  TokenCount as Count,
  Sizes,
  Tokens,
  RunRow,
  RunWithGraph,
  Start,
  Submitted,
  Template,
  TemplateNeeds,
  Upload,
  UploadRow,
  Workflow,
  WorkflowVersion,
  WorkflowWithGraph,
} from "./generated/contract";
/** The catalog, with the nodes whose sockets depend on their values as far as the server was asked (`chosen.ts`). */
export type Catalog = Told & { chosen?: Readonly<Record<string, CatalogNode>> };
export type Meant = Checked["values"];
export type ProblemKind = Problem["kind"];
/** What users send; a video comes from a result only. */
export type UploadKind = Exclude<UploadRow["kind"], "video">;
export type Priority = LiveRun["priority"];
export type RunState = LiveRun["state"];
export type NodeRunState = NodeState["state"];

/** Values by name as a form holds them: the server says what is wrong with them. */
export type Overrides = Record<string, Json>;
export type RunRequest = Omit<RunBody, "overrides"> & { overrides?: Overrides };
export type PlanRequest = Omit<PlanBody, "overrides" | "page"> & { overrides?: Overrides };

export * from "./types/graph";
export * from "./types/library";
export * from "./types/results";
export * from "./types/values";
export * from "./types/workflow";
