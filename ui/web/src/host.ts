/** The typed client of the server's API. Every call rejects with an `ApiError` that says why in one sentence. */

import { limitedNode, withLimits } from "./exact";
import type { ModelSource } from "./graph/loras";
import type { Translation } from "./i18n";
import { address, ApiError, asset, path, request, send } from "./http";
import type {
  App,
  AppForm,
  AppKnown,
  AppTokens,
  Board,
  BoardRow,
  Catalog,
  Checked,
  Download,
  Draft,
  DraftEntry,
  ForeignFacts,
  GraphFile,
  Hashing,
  History,
  HubLook,
  Json,
  Kept,
  LorasView,
  Maker,
  MarkBody,
  Me,
  ModelsView,
  NamedGraph,
  NodeSpec,
  NodeUse,
  Overrides,
  PlanMachine,
  PlanRequest,
  PlanView,
  Priority,
  Result,
  ResultQuery,
  RunRequest,
  RunRow,
  RunWithGraph,
  Start,
  Submitted,
  TagRow,
  Template,
  TemplateNeeds,
  Tokens,
  Upload,
  UploadKind,
  UploadRow,
  Workflow,
  WorkflowVersion,
  WorkflowWithGraph,
} from "./types";

export { ApiError, sentence } from "./http";
export { LiveSocket } from "./liveSocket";

type Asked = Readonly<Record<string, string | number | undefined>>;

/** The rows of one page of a list, at most. */
const MAX_ROWS = 1000;
const UPLOADS_AT_ONCE = 60;
const MAX_TURNS = 3;
/** This page, as the server knows it: its newer question about a workflow ends the older. */
const PAGE = [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

const get = <T>(apiPath: string): Promise<T> => request<T>("GET", apiPath);
const post = <T>(apiPath: string, json: unknown, signal?: AbortSignal): Promise<T> =>
  request<T>("POST", apiPath, { json, signal });
const put = <T>(apiPath: string, json: unknown): Promise<T> => request<T>("PUT", apiPath, { json });
/** All rows of a list that comes in pages; a row that is gone when the page behind it is asked for starts it anew. */
async function all<T>(apiPath: string, keyOf: (row: T) => string, asked: Asked = {}): Promise<T[]> {
  for (let turn = 1; ; turn++) {
    try {
      return await joined(apiPath, keyOf, asked);
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 404) || turn === MAX_TURNS) throw error;
    }
  }
}

async function joined<T>(apiPath: string, keyOf: (row: T) => string, asked: Asked): Promise<T[]> {
  const rows: T[] = [];
  for (;;) {
    const last = rows.at(-1);
    const page = await get<T[]>(apiPath + query({ ...asked, limit: MAX_ROWS, before: last && keyOf(last) }));
    rows.push(...page);
    if (page.length < MAX_ROWS) return rows;
  }
}

const drop = (apiPath: string): Promise<void> => request("DELETE", apiPath);

export const host = {
  catalog: () => get<Catalog>("/catalog").then(withLimits),
  start: () => get<Start>("/start"),
  me: () => get<Me>("/me"),
  /** What the user keeps, and how much that may be. */
  kept: () => get<Kept>("/kept"),
  logOut: () => post<void>("/logout", {}),
  texts: (language: string) => get<Translation>(asset(`loom.${language}.json`)),
  templates: () => get<Template[]>("/templates"),
  /** Which of them run here, and what the others lack. */
  nodeUse: (type: string) => get<NodeUse>(path`/nodes/${type}/use`),
  templatesNeeds: () => get<TemplateNeeds[]>("/templates/needs"),

  workflows: (search?: string) => all<Workflow>("/workflows", (row) => row.id, { search }),
  createWorkflow: (graph: GraphFile, at: { name?: string; folder?: string } = {}) =>
    post<Workflow>("/workflows", { graph, ...at }),
  workflow: (id: string, version?: number) => get<WorkflowWithGraph>(path`/workflows/${id}` + query({ version })),
  saveWorkflow: (id: string, graph: GraphFile, baseVersion: number) =>
    put<Workflow>(path`/workflows/${id}`, { graph, base_version: baseVersion }),
  changeWorkflow: (id: string, change: { name?: string; folder?: string }) =>
    request<Workflow>("PATCH", path`/workflows/${id}`, { json: change }),
  deleteWorkflow: (id: string) => drop(path`/workflows/${id}`),
  duplicateWorkflow: (id: string) => post<Workflow>(path`/workflows/${id}/duplicate`, {}),
  versions: (id: string) => get<WorkflowVersion[]>(path`/workflows/${id}/versions`),
  putThumb: (id: string, picture: Blob) => request("PUT", path`/workflows/${id}/thumb`, { raw: picture }),
  shareWorkflow: (id: string) => post<{ token: string }>(path`/workflows/${id}/share`, {}),
  shared: (token: string) => get<NamedGraph>(path`/shared/${token}`),

  /** The links to apps that the user has given. */
  apps: () => get<App[]>("/apps"),
  publishApp: (id: string, version: number) => put<App>(path`/workflows/${id}/app`, { version }),
  revokeApp: (id: string) => drop(path`/workflows/${id}/app`),
  app: (token: string) => get<AppForm>(path`/apps/${token}`),
  runApp: (token: string, params: Overrides) => post<Submitted>(path`/apps/${token}/runs`, { params }),
  /** A newer question of the same page ends the older, and so for the next. */
  checkApp: (token: string, params: Overrides, signal: AbortSignal) =>
    post<AppKnown>(path`/apps/${token}/check`, { params, page: PAGE }, signal),
  appTokens: (token: string, params: Overrides, signal: AbortSignal) =>
    post<AppTokens>(path`/apps/${token}/tokens`, { params, page: PAGE }, signal),
  /** What a run of an app made, as far as the app shows it. */
  appResults: (token: string, run: string) => get<Result[]>(path`/apps/${token}/results` + query({ run })),

  drafts: () => all<DraftEntry>("/drafts", (row) => row.key),
  draft: (key: string) => get<Draft>(path`/drafts/${key}`),
  putDraft: (key: string, draft: Draft) => put<unknown>(path`/drafts/${key}`, draft),
  deleteDraft: (key: string) => drop(path`/drafts/${key}`),

  open: (file: Blob, name: string) => request<NamedGraph>("POST", "/open", { raw: file, name }),
  /** What a picture of another program says; null where it says nothing. */
  foreign: (file: Blob) => request<ForeignFacts | null>("POST", "/foreign", { raw: file }),
  text: (graph: GraphFile) => post<{ text: string }>("/text", { graph }),
  exportPython: (graph: GraphFile, targets: readonly string[] | null) =>
    post<{ text: string }>("/export/python", { graph, targets }),
  exportComfy: (graph: GraphFile) => post<Record<string, Json>>("/export/comfyui", { graph }),
  /** A newer question of the same asker ends the older. */
  check: (graph: GraphFile, signal?: AbortSignal, asker = "") =>
    post<Checked>("/check", { graph, page: PAGE + asker }, signal),
  /** What text encoders make of the workflow's texts. A newer question of the same asker ends the older. */
  tokens: (graph: GraphFile, signal?: AbortSignal, asker = "") =>
    post<Tokens>("/tokens", { graph, page: PAGE + asker }, signal),
  sockets: (type: string, values: Record<string, string>) =>
    post<NodeSpec>("/sockets", { type, values }).then(limitedNode),
  /** How well this machine's runs were predicted. */
  history: () => get<History>("/history"),
  /** Measures the server's machine for predictions; refused while anything runs there. */
  measure: () => post<PlanMachine>("/measure", {}),
  plan: (asked: PlanRequest, signal?: AbortSignal) => post<PlanView>("/plan", { ...asked, page: PAGE }, signal),

  submit: (asked: RunRequest) => post<Submitted>("/runs", asked),
  run: (id: string) => get<RunWithGraph>(path`/runs/${id}`),
  deleteRun: (id: string) => drop(path`/runs/${id}`),
  /** Runs that are over, newest first, behind one. */
  runsOver: (limit: number, before?: string) =>
    get<RunRow[]>(`/runs${query({ limit, before })}&state=done&state=failed&state=cancelled`),
  /** null is all that wait or run. */
  cancelRuns: (runs: readonly string[] | null) => post<unknown>("/runs/cancel", { runs }),
  prioritize: (runs: readonly string[], priority: Priority) => post<void>("/runs/priority", { runs, priority }),
  cancelRun: (id: string) => post<void>(path`/runs/${id}/cancel`, {}),
  moveRun: (id: string, before: string | null) => post<void>(path`/runs/${id}/move`, { before }),

  results: (asked: ResultQuery = {}) => get<Result[]>("/results" + query({ ...asked })),
  setPoster: (id: string, frame: number) => put<Result>(path`/results/${id}/poster`, { frame }),
  result: (id: string) => get<Result>(path`/results/${id}`),
  deleteResult: (id: string) => drop(path`/results/${id}`),
  /** All of them change, or none. */
  mark: (change: MarkBody) => post<Result[]>("/results/marks", change),
  /** A copy among the user's inputs, made by the server. */
  useResult: (id: string) => post<Upload>(path`/results/${id}/input`, {}),
  tags: () => get<TagRow[]>("/tags"),
  /** The names of the workflows that made results. */
  makers: () => get<Maker[]>("/makers"),
  boards: () => get<BoardRow[]>("/boards"),
  createBoard: (name: string) => post<Board>("/boards", { name }),
  renameBoard: (id: string, name: string) => request<Board>("PATCH", path`/boards/${id}`, { json: { name } }),
  deleteBoard: (id: string) => drop(path`/boards/${id}`),
  /** Begins to read a run's model for its sha256; ask `hashing` how far it is. */
  hash: (run: string, node: string) => post<Hashing>("/hashes", { run, node }),
  hashing: (id: string) => get<Hashing>(path`/hashes/${id}`),
  cancelHash: (id: string) => drop(path`/hashes/${id}`),

  upload: (file: Blob, name: string, onProgress: (part: number) => void = () => undefined) =>
    send<Upload>("/uploads", file, name, onProgress),
  /** The newest, or those behind one. */
  uploads: async (kind: UploadKind, before?: string) => {
    const rows = await get<UploadRow[]>("/uploads" + query({ kind, limit: UPLOADS_AT_ONCE, before }));
    return { rows, hasMore: rows.length === UPLOADS_AT_ONCE };
  },
  deleteUpload: (uploaded: string) => drop(path`/uploads/${uploaded}`),
  /** The LoRAs here, those first that fit a model; `refresh` looks for others again. */
  loras: ({ refresh, ...asked }: { model?: string; revision?: string; refresh?: boolean } = {}) =>
    get<LorasView>("/loras" + query({ ...asked, refresh: refresh ? "true" : undefined })),
  /** A model on the hub: licence, access, size. */
  lookAtHub: ({ source, revision }: ModelSource) => post<HubLook>("/hub", { id: source, revision }),
  /** Fetch what was looked at, of that commit. */
  startDownload: ({ id, revision, commit }: HubLook) => post<Download>("/downloads", { id, revision, commit }),
  downloads: () => get<Download[]>("/downloads"),
  cancelDownload: (id: string) => post<void>(path`/downloads/${id}/cancel`, {}),
  resumeDownload: (id: string) => post<Download>(path`/downloads/${id}/resume`, {}),
  /** With what was fetched of it. */
  deleteDownload: (id: string) => drop(path`/downloads/${id}`),
  /** `refresh` looks for models again. */
  models: (refresh = false) => get<ModelsView>("/models" + query({ refresh: refresh ? "true" : undefined })),
};

/** Addresses of pictures and files, for `src` and `href`. */
export const urls = {
  workflowThumb: (id: string, version: number) => address(path`/workflows/${id}/thumb` + query({ v: version })),
  workflowFile: (id: string) => address(path`/workflows/${id}/file`),
  preview: (run: string, node: string, number: number) =>
    address(path`/runs/${run}/previews/${node.replaceAll("/", ":")}` + query({ s: number })),
  file: (result: string) => address(path`/files/${result}`),
  download: (result: string) => address(path`/files/${result}` + query({ download: 1 })),
  /** `poster` is the result's own, so that no older picture is shown. */
  thumb: (result: string, poster = 0) => address(path`/files/${result}/thumb` + query({ poster: poster || undefined })),
  upload: (uploaded: string) => address(`/uploads/${uploaded.split("/").map(encodeURIComponent).join("/")}`),
  templateFile: (name: string) => address(path`/templates/files/${name}`),
  loraThumb: (id: string) => address(path`/loras/${id}/thumb`),
  uploadThumb: (uploaded: string) => `${urls.upload(uploaded)}/thumb`,
};

function query(values: Asked): string {
  const given = Object.entries(values).filter(([, value]) => value !== undefined && value !== "");
  return given.length ? `?${new URLSearchParams(given.map(([key, value]) => [key, String(value)]))}` : "";
}
