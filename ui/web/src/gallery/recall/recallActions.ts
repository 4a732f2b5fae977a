/** Values of a result, or the result itself, brought into the workflow on the canvas; each is one step of undo. */

import { showNew } from "../../canvas/commands/focusItem";
import { addNode, giveValue } from "../../graph/edits";
import { specOf } from "../../graph/catalog";
import { fromFile } from "../../graph/file/workflowFile";
import { idsOf, itemKey } from "../../graph/items";
import { freshName } from "../../graph/names";
import { has, own } from "../../graph/record";
import { isLink } from "../../graph/values";
import { host, sentence } from "../../host";
import { t, type TextKey } from "../../i18n";
import { edit, editWhole, editorStore, select } from "../../store/editor";
import { go, openDialog, toast } from "../../store/page";
import type { EditorGraph, Point, Result, Upload } from "../../types";
import { gallery } from "../galleryState";
import { runRecord } from "../useRunRecord";
import { asImageToImage } from "./imageToImage";
import { placesFor, recall, recallAll, type Place, type Recalled, type RecallKind } from "./places";

/** What the dialog of several places is opened for. */
export interface PlacesAsked {
  kind: RecallKind;
  value: Recalled;
  places: readonly Place[];
}

const LOADERS = { image: "LoomLoadImage", audio: "LoomLoadAudio", video: "LoomLoadVideo" } as const;

/** Write one kind of value where the workflow takes it; people choose where several nodes do. */
export function recallOne(kind: RecallKind, value: Recalled): void {
  const { whole: graph, catalog } = editorStore.getState();
  const places = placesFor(graph, catalog, kind);
  if (places.length === 0) return void toast({ kind: "error", text: t(`gallery.no_place_${kind}`) });
  toCanvas();
  if (places.length > 1) return openDialog("places", { kind, value, places } satisfies PlacesAsked);
  write({ kind, value, places });
}

/** Write it at these places. */
export function write({ kind, value, places }: PlacesAsked): void {
  const label = t(`gallery.recall_${kind}`);
  editWhole(label, (graph) => recall(graph, kind, value, places));
  select(places.map(({ node }) => itemKey("node", node)));
  done(`gallery.recalled_${kind}`);
}

/** Every value of the workflow that made a result, where the canvas has such nodes. */
export async function recallValues(result: Result): Promise<void> {
  try {
    const run = await runRecord(result.run);
    if (!run.graph) throw new Error(t("gallery.no_graph"));
    const from = fromFile(run.graph);
    const { whole: graph } = editorStore.getState();
    const changed = recallAll(graph, from);
    toCanvas();
    if (changed === graph) return void toast({ kind: "info", text: t("gallery.nothing_recalled") });
    editWhole(t("gallery.recall_all"), () => changed);
    done("gallery.recalled_all");
  } catch (error) {
    toast({ kind: "error", text: sentence(error) });
  }
}

/** A copy of the result becomes an input: of the selected node that takes such a file, else of a new one. */
export async function useAsInput(result: Result): Promise<void> {
  try {
    const upload = await host.useResult(result.id);
    toCanvas();
    placeInput(upload);
  } catch (error) {
    toast({ kind: "error", text: sentence(error) });
  }
}

/** Put a file that is among the user's inputs on the canvas. */
export function placeInput({ path, kind }: Upload, at: Point = below(editorStore.getState().graph)): void {
  const { graph, catalog, selection } = editorStore.getState();
  const type = LOADERS[kind];
  const spec = specOf(catalog, type);
  if (!spec) throw new Error(t("gallery.no_loader"));
  const target = idsOf(selection, "node").find(
    (node) => own(graph.nodes, node)?.type === type && !isLink(own(graph.nodes[node]?.inputs ?? {}, "path")),
  );
  const label = t("gallery.use_as_input");
  const name = target ?? freshName(`load_${kind}`, (taken) => has(graph.nodes, taken));
  if (target === undefined) edit(label, (last) => addNode(last, { name, spec, at, inputs: { path } }));
  else edit(label, (last) => giveValue(last, target, "path", path));
  showNew(itemKey("node", name));
  const offer = { label: t("gallery.to_image_to_image"), act: () => toImageToImage(name) };
  const canWire = kind === "image" && asImageToImage(editorStore.getState().graph, catalog, name) !== null;
  toast({ kind: "success", text: t("gallery.used_as_input"), about: "recall", ...(canWire && { actions: [offer] }) });
}

function toImageToImage(load: string): void {
  const { catalog } = editorStore.getState();
  edit(t("gallery.to_image_to_image"), (last) => asImageToImage(last, catalog, load) ?? last);
}

function toCanvas(): void {
  gallery.getState().close(true);
  go("build");
}

function done(key: TextKey): void {
  toast({ kind: "success", text: t(key), about: "recall" });
}

/** Below everything that is there. */
function below(graph: EditorGraph): Point {
  const places = Object.values(graph.nodes).map((node) => node.at);
  if (places.length === 0) return [40, 40];
  return [Math.min(...places.map((at) => at[0])), Math.max(...places.map((at) => at[1])) + 320];
}
