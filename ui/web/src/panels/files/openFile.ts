/** Files from the disk: a workflow, a result that carries one, or a plain picture or sound to work on. */

import { specOf } from "../../graph/catalog";
import { addNode } from "../../graph/edits";
import { itemKey } from "../../graph/items";
import { freshName } from "../../graph/names";
import { has } from "../../graph/record";
import { ApiError, host, sentence } from "../../host";
import { t } from "../../i18n";
import { edit, editorStore, select } from "../../store/editor";
import { openDialog, toast } from "../../store/page";
import type { Point, UploadKind } from "../../types";
import { openUnsaved, said } from "./fileActions";

const LOADERS = {
  image: { type: "LoomLoadImage", name: "load_image" },
  audio: { type: "LoomLoadAudio", name: "load_audio" },
};
const KINDS = ".json,.png,.jpg,.jpeg,.webp,.mp4,.webm,.flac,.wav";

export interface PlainFile {
  file: File;
  kind: UploadKind;
  /** Why it was not opened as a workflow. */
  reason: string;
  at: Point;
}

/** Open what the file holds; a picture or sound without a workflow may become a node that loads it, at that place. */
export async function openFile(file: File, at: Point = placeBeside()): Promise<void> {
  try {
    const { graph, name } = await host.open(file, file.name);
    await openUnsaved(graph, name);
  } catch (error) {
    const isRefused = error instanceof ApiError && error.status >= 400 && error.status < 500;
    const kind = (["image", "audio"] as const).find((each) => file.type.startsWith(`${each}/`));
    if (isRefused && kind) openDialog("plain_file", { file, kind, reason: sentence(error), at } satisfies PlainFile);
    else toast({ kind: "error", text: sentence(error) });
  }
}

/** Put the file on the server and a node that loads it on the canvas. */
export async function loadFile({ file, kind, at }: PlainFile): Promise<void> {
  await said(async () => {
    const { path } = await host.upload(file, file.name);
    const { catalog, graph } = editorStore.getState();
    const loader = LOADERS[kind];
    const spec = specOf(catalog, loader.type);
    if (!spec) throw new Error(t(`panels.no_load_${kind}`));
    const name = freshName(loader.name, (taken) => has(graph.nodes, taken));
    edit(t(`panels.edit_${kind}`), (last) => addNode(last, { name, spec, at, inputs: { path } }));
    select([itemKey("node", name)]);
  });
}

/** Let people choose a file to open. */
export function pickFile(): void {
  const input = document.createElement("input");
  input.type = "file";
  input.accept = KINDS;
  input.onchange = () => {
    const file = input.files?.[0];
    if (file) void openFile(file);
  };
  input.click();
}

/** Below everything that is there. */
function placeBeside(): Point {
  const places = Object.values(editorStore.getState().graph.nodes).map((node) => node.at);
  if (places.length === 0) return [40, 40];
  return [Math.min(...places.map((at) => at[0])), Math.max(...places.map((at) => at[1])) + 320];
}
