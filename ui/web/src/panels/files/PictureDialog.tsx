import { useEffect, useState } from "react";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { Dialog } from "../../parts/overlays/Dialog";
import { closeDialog } from "../../store/page";
import { loadPicture, type PlainPicture } from "./openFile";

/** A picture that carries no workflow can be worked on. */
export function PictureDialog({ picture }: { picture: PlainPicture }) {
  const address = useAddress(picture.file);
  const [isBusy, setBusy] = useState(false);
  const load = async () => {
    setBusy(true);
    await loadPicture(picture);
    closeDialog();
  };
  return (
    <Dialog
      title={t("panels.picture")}
      size="small"
      description={picture.reason}
      onClose={closeDialog}
      footer={
        <>
          <Button kind="ghost" onClick={closeDialog}>
            {t("panels.cancel_dialog")}
          </Button>
          <Button kind="primary" icon="image" isBusy={isBusy} onClick={() => void load()}>
            {t("panels.picture_load")}
          </Button>
        </>
      }
    >
      {address && <img className="ll-dropped-picture" src={address} alt={picture.file.name} />}
    </Dialog>
  );
}

function useAddress(file: File): string {
  const [address, setAddress] = useState("");
  useEffect(() => {
    const made = URL.createObjectURL(file);
    setAddress(made);
    return () => URL.revokeObjectURL(made);
  }, [file]);
  return address;
}
