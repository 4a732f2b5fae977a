import { gallery } from "../../gallery/galleryState";
import { itemKey } from "../../graph/items";
import { host, urls } from "../../host";
import { t } from "../../i18n";
import { edit, editorStore, select } from "../../store/editor";
import { go, toast } from "../../store/page";
import type { Result } from "../../types";
import { MaskPainter } from "../lazy";
import { withMaskedPicture } from "./addMask";

/** Paint a mask on a result: both then lie on the canvas as nodes, by one step that undo takes back. */
export function MaskOnResult({ result, onClose }: { result: Result; onClose: () => void }) {
  const address = urls.file(result.id);
  const save = async (file: Blob) => {
    const { path } = await host.useResult(result.id);
    const mask = await host.upload(file, "mask.png");
    const { catalog, graph } = editorStore.getState();
    const made = withMaskedPicture(graph, catalog, { picture: path, mask: mask.path });
    edit(t("material.edit_mask"), () => made.graph);
    select(made.names.map((name) => itemKey("node", name)));
    gallery.getState().close(true);
    go("build");
    toast({ kind: "success", text: t("material.mask_on_canvas") });
  };
  return <MaskPainter picture={address} mask="" channel="luminance" onSave={save} onClose={onClose} />;
}
