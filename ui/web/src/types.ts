/** The bodies that page and server exchange, as the server defines them, and the graph as the editor holds it. */

import type { LiveRun, NodeState, RunBody } from "./generated/contract";

export type {
  Catalog,
  CatalogInput as InputSpec,
  CatalogNode as NodeSpec,
  Choice as PlanChoice,
  DeviceNow as Device,
  Draft as DraftEntry,
  DraftBody as Draft,
  LiveMessage,
  LiveRun as Run,
  LoadedPart,
  Me,
  ModelRow as ModelEntry,
  ModelsView,
  NamedGraph,
  NodeState,
  OutputSpec,
  PlanBody as PlanRequest,
  PlanNode,
  PlanRank,
  PlanStrategies,
  PlanView,
  Problem,
  QueuePlace as QueueEntry,
  RankWork,
  Result,
  RunBody as RunRequest,
  RunWithGraph,
  Submitted,
  Template,
  Upload,
  UploadRow,
  Workflow,
  WorkflowVersion,
  WorkflowWithGraph,
} from "./generated/contract";
export type RunState = LiveRun["state"];
export type NodeRunState = NodeState["state"];
export type Overrides = NonNullable<RunBody["overrides"]>;

export * from "./types/graph";
export * from "./types/library";
export * from "./types/results";
export * from "./types/values";
export * from "./types/workflow";
