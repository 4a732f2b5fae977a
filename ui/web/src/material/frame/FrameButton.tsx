import { useState } from "react";
import { specOf } from "../../graph/catalog";
import { giveValue } from "../../graph/edits";
import { own } from "../../graph/record";
import { isLink, plainValue } from "../../graph/values";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { edit, editorStore, useEditor } from "../../store/editor";
import { pictureAddress } from "../../widgets/pictures/pictureAddress";
import { UploadsDialog } from "../../widgets/pictures/UploadsDialog";
import { FrameDialog } from "../lazy";
import { pictureBehind } from "../mask/under";
import { frameKindOf } from "./frame";

/** For a node that takes a part of a picture, or adds to its sides: set by a frame on the picture, as one step. */
export function FrameButton({ node }: { node: string }) {
  const type = useEditor((state) => own(state.graph.nodes, node)?.type ?? "");
  const [picture, setPicture] = useState<string | null>(null);
  const kind = frameKindOf(specOf(editorStore.getState().catalog, type));
  if (!kind) return null;
  const open = () => {
    const { graph, catalog } = editorStore.getState();
    setPicture(pictureBehind(graph, catalog, node));
  };
  const close = () => setPicture(null);
  const address = picture === null ? "" : pictureAddress(picture);
  return (
    <>
      <Button icon="crop" onClick={open}>
        {t(`material.open_${kind}`)}
      </Button>
      {picture !== null && !address && (
        <UploadsDialog kind="image" title={t("material.choose_framed")} onClose={close} onChoose={setPicture} />
      )}
      {address && (
        <FrameDialog
          kind={kind}
          picture={address}
          value={(socket) => numberAt(node, socket)}
          onUse={(values) => use(node, values)}
          onClose={close}
        />
      )}
    </>
  );
}

function numberAt(node: string, socket: string): number {
  const { graph } = editorStore.getState();
  const value = plainValue(graph, own(own(graph.nodes, node)?.inputs ?? {}, socket));
  return typeof value === "number" ? value : 0;
}

/** What a wire brings stays as it is. */
function use(node: string, values: Record<string, number>): void {
  edit(t("material.frame"), (graph) =>
    Object.entries(values).reduce(
      (last, [socket, value]) =>
        isLink(own(own(last.nodes, node)?.inputs ?? {}, socket)) ? last : giveValue(last, node, socket, value),
      graph,
    ),
  );
}
