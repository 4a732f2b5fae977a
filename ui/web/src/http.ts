/** Requests to the server: one address, one kind of error, one listener for trouble. */

import { parseExact, textExact } from "./exact";
import { t } from "./i18n";
import type { Problem } from "./types";
import { heard, worded } from "./worded";

/** A refusal in one sentence; `status` 0 means that the server was not reached. */
export class ApiError extends Error {
  override readonly name = "ApiError";

  constructor(
    message: string,
    readonly status: number,
    readonly problems: Problem[] = [],
  ) {
    super(message);
  }
}

export type Trouble = "login" | "offline" | "online";

/** What only reads is asked once more before the server is said to be gone: one connection may break. */
const AGAIN_MS = 250;

let prefix = "loom";
let version = "";
let onTrouble: (trouble: Trouble) => void = () => undefined;

/** Called once by `mount`: the path of the API beside the page, the bundle's version, and who hears of trouble. */
export function setHost(path: string, bundle: string, listener: (trouble: Trouble) => void): void {
  prefix = path.replace(/\/+$/, "");
  version = bundle;
  onTrouble = listener;
}

/** The address of an API path such as "/runs". */
export function address(path: string): string {
  return new URL(`${prefix}${path}`, document.baseURI).href;
}

/** The path of one of the page's own files, which browsers keep until there is another version. */
export function asset(name: string): string {
  return `/static/${name}?v=${version}`;
}

/** A path of fixed parts and of ids, which are escaped. */
export function path(parts: TemplateStringsArray, ...ids: (string | number)[]): string {
  return String.raw({ raw: parts }, ...ids.map((id) => encodeURIComponent(id)));
}

interface Body {
  json?: unknown;
  raw?: Blob;
  name?: string;
  /** Ends the request; its promise is then rejected, and nobody should be told. */
  signal?: AbortSignal;
}

export async function request<T>(method: string, apiPath: string, body: Body = {}): Promise<T> {
  const headers: Record<string, string> = {};
  if (body.json !== undefined) headers["Content-Type"] = "application/json";
  if (body.name !== undefined) headers["X-Name"] = encodeURIComponent(body.name);
  const content = body.json === undefined ? (body.raw ?? null) : textExact(body.json);
  const ask = (): Promise<Response> =>
    fetch(address(apiPath), { method, headers, body: content, credentials: "same-origin", signal: body.signal });
  let response: Response;
  try {
    response = await ask().catch((error) => {
      if (method !== "GET") throw error;
      return pause(AGAIN_MS).then(ask);
    });
  } catch (error) {
    if (body.signal?.aborted) throw error;
    return refuseOffline();
  }
  onTrouble("online");
  if (!response.ok) throw errorFrom(response.status, await response.text());
  return (response.status === 204 ? undefined : heard(parseExact(await response.text()))) as T;
}

/** Send a file; `onProgress` gets 0 to 1. */
export function send<T>(apiPath: string, file: Blob, name: string, onProgress: (part: number) => void): Promise<T> {
  return new Promise((resolve, reject) => {
    const upload = new XMLHttpRequest();
    upload.open("POST", address(apiPath));
    upload.setRequestHeader("X-Name", encodeURIComponent(name));
    upload.setRequestHeader("Content-Type", "application/octet-stream");
    upload.upload.onprogress = (event) => event.lengthComputable && onProgress(event.loaded / event.total);
    upload.onerror = () => refuseOffline().catch(reject);
    upload.onload = () => {
      onTrouble("online");
      if (upload.status >= 400) reject(errorFrom(upload.status, upload.responseText));
      else resolve(heard(parseExact(upload.responseText)) as T);
    };
    upload.send(file);
  });
}

/** What to tell people of any error. */
export function sentence(error: unknown): string {
  return worded(error instanceof Error ? error.message : String(error));
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

function refuseOffline(): Promise<never> {
  onTrouble("offline");
  return Promise.reject(new ApiError(t("host.offline"), 0));
}

function errorFrom(status: number, text: string): ApiError {
  if (status === 401) onTrouble("login");
  try {
    const { error, problems } = heard(JSON.parse(text)) as { error?: unknown; problems?: Problem[] };
    if (typeof error === "string") return new ApiError(error, status, problems ?? []);
  } catch {
    // Not ours, such as a proxy's page: the number says what can be said.
  }
  return new ApiError(status === 401 ? t("host.login") : t("host.failed", { status }), status);
}
