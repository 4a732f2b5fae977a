import { useContext, useState } from "react";
import { host } from "../../host";
import { t } from "../../i18n";
import { underMask } from "../../material/mask/under";
import { MaskPainter } from "../../material/lazy";
import { Button } from "../../parts/Button";
import { editorStore } from "../../store/editor";
import { GraphOfFields, UnderMask } from "../graphOfFields";
import { asText, SETTLED, type WidgetProps } from "../widget";
import { pictureAddress } from "./pictureAddress";
import { PictureField } from "./PictureField";
import { UploadsDialog } from "./UploadsDialog";

/** A mask: a picture that is chosen like any other, or painted over the picture that it lies over. */
export function MaskField(props: WidgetProps) {
  const { value, onChange, disabled, place = "" } = props;
  const graph = useContext(GraphOfFields);
  const told = useContext(UnderMask);
  const [picture, setPicture] = useState<string | null>(null);
  const { picture: found, channel } = told?.(place) ?? underMask(graph(), editorStore.getState().catalog, place);
  const mask = pictureAddress(asText(value));
  const address = picture === null ? "" : pictureAddress(picture);
  const close = () => setPicture(null);
  const save = async (file: Blob) => {
    const uploaded = await host.upload(file, "mask.png");
    onChange(uploaded.path, SETTLED);
  };
  return (
    <>
      <PictureField {...props} />
      <Button icon="edit" className="nodrag" disabled={disabled} onClick={() => setPicture(found)}>
        {t("material.open")}
      </Button>
      {picture !== null && !address && !mask && (
        <UploadsDialog kind="image" title={t("material.choose_picture")} onClose={close} onChoose={setPicture} />
      )}
      {picture !== null && (address || mask) && (
        <MaskPainter picture={address} mask={mask} channel={channel} onSave={save} onClose={close} />
      )}
    </>
  );
}
