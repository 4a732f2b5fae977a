import { useEffect, useState } from "react";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { Dialog } from "../../parts/overlays/Dialog";
import { Sound } from "../../parts/Sound";
import { closeDialog } from "../../store/page";
import { loadFile, type PlainFile } from "./openFile";

/** A picture or sound that carries no workflow can be worked on. */
export function PlainFileDialog({ plain }: { plain: PlainFile }) {
  const { file, kind, reason } = plain;
  const address = useAddress(file);
  const [isBusy, setBusy] = useState(false);
  const load = async () => {
    setBusy(true);
    await loadFile(plain);
    closeDialog();
  };
  return (
    <Dialog
      title={t(`panels.plain_${kind}`)}
      size="small"
      description={reason}
      onClose={closeDialog}
      footer={
        <>
          <Button kind="ghost" onClick={closeDialog}>
            {t("panels.cancel_dialog")}
          </Button>
          <Button kind="primary" icon={kind} isBusy={isBusy} onClick={() => void load()}>
            {t(`panels.load_${kind}`)}
          </Button>
        </>
      }
    >
      {address && kind === "image" && <img className="ll-dropped-picture" src={address} alt={file.name} />}
      {address && kind === "audio" && <Sound src={address} label={file.name} />}
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
