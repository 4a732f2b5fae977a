/** What a player shows, taken as material: each becomes a file of the user's and the node that loads it. */

import { showNew } from "../../canvas/commands/focusItem";
import { specOf } from "../../graph/catalog";
import { addNode } from "../../graph/edits";
import { itemKey } from "../../graph/items";
import { freshName } from "../../graph/names";
import { has } from "../../graph/record";
import { gallery } from "../../gallery/galleryState";
import { host, sentence } from "../../host";
import { t } from "../../i18n";
import { edit, editorStore } from "../../store/editor";
import { go, toast } from "../../store/page";
import type { InputValue, Point, Result } from "../../types";

/** The frame that a video shows now. */
export function frameAsInput(result: Result, video: HTMLMediaElement | null): Promise<void> {
  return said(async () => {
    if (!(video instanceof HTMLVideoElement)) return;
    const canvas = new OffscreenCanvas(video.videoWidth, video.videoHeight);
    canvas.getContext("2d")?.drawImage(video, 0, 0);
    const file = await canvas.convertToBlob({ type: "image/png" });
    const { path } = await host.upload(file, `${result.name.replace(/\.\w+$/, "")}-frame.png`);
    load("LoomLoadImage", "load_image", { path });
  });
}

/** The marked frames of a video, as Load Video takes them. */
export function partAsInput(result: Result, part: { start: number; frames: number }): Promise<void> {
  return said(async () => {
    const { path } = await host.useResult(result.id);
    load("LoomLoadVideo", "load_video", { path, ...part });
  });
}

/** The marked seconds of a sound, as Load Audio takes them. */
export function soundAsInput(result: Result, { start, end }: { start: number; end: number }): Promise<void> {
  return said(async () => {
    const { path } = await host.useResult(result.id);
    const [from, length] = [Number(start.toFixed(3)), Number((end - start).toFixed(3))];
    load("LoomLoadAudio", "load_audio", { path, start: from, duration: length });
  });
}

function load(type: string, base: string, inputs: Record<string, InputValue>): void {
  const { catalog, graph } = editorStore.getState();
  const spec = specOf(catalog, type);
  if (!spec) throw new Error(t("material.no_node", { type }));
  const name = freshName(base, (taken) => has(graph.nodes, taken));
  edit(t("material.edit_input"), (last) => addNode(last, { name, spec, at: below(), inputs }));
  gallery.getState().close(true);
  go("build");
  showNew(itemKey("node", name));
  toast({ kind: "success", text: t("material.on_canvas", { name: spec.title }) });
}

function below(): Point {
  const places = Object.values(editorStore.getState().graph.nodes).map(({ at }) => at);
  if (places.length === 0) return [40, 40];
  return [Math.min(...places.map(([x]) => x)), Math.max(...places.map(([, y]) => y)) + 360];
}

async function said(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    toast({ kind: "error", text: sentence(error) });
  }
}
