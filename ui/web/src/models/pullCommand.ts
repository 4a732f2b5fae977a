/** How a model gets onto the server's machine: the command that fetches it from the hub. */

import type { ModelSource } from "../graph/loras";

const HUB_ID = /^[A-Za-z0-9][\w.-]{0,95}\/[A-Za-z0-9][\w.-]{0,95}$/;

/** Whether a text is a model's id on the hub, such as Qwen/Qwen-Image. */
export function isHubId(text: string): boolean {
  return HUB_ID.test(text);
}

/** The model in what people paste: its id, or the address of its page, which may be that of a revision. A source of ""
 * where there is none. */
export function hubModelIn(text: string): ModelSource {
  const plain = text.trim().replace(/^https?:\/\/(www\.)?huggingface\.co\//, "");
  const [owner = "", name = "", kind = "", revision = ""] = plain.split(/[?#]/)[0]!.split("/");
  const id = `${owner}/${name}`;
  if (!isHubId(id)) return { source: "", revision: "" };
  return { source: id, revision: kind === "tree" ? decoded(revision) : "" };
}

/** As `hubModelIn` reads it. */
export function hubAddress({ source, revision }: ModelSource): string {
  return revision ? `${source}/tree/${encodeURIComponent(revision)}` : source;
}

export function pullCommand({ source, revision }: ModelSource): string {
  return `latentloom models pull ${source}${/^[\w./-]+$/.test(revision) ? ` --revision ${revision}` : ""}`;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
