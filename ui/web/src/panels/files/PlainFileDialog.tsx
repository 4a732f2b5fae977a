import { useEffect, useState } from "react";
import { host } from "../../host";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { Dialog } from "../../parts/overlays/Dialog";
import { Sound } from "../../parts/Sound";
import { closeDialog } from "../../store/page";
import type { ForeignFacts } from "../../types";
import { ForeignPicture } from "./ForeignPicture";
import { loadFile, type PlainFile } from "./openFile";

/** A picture or sound that carries no workflow can be worked on. */
export function PlainFileDialog({ plain }: { plain: PlainFile }) {
  const { file, kind, reason } = plain;
  const address = useAddress(file);
  const [isBusy, setBusy] = useState(false);
  const foreign = useForeign(plain);
  const load = async () => {
    setBusy(true);
    await loadFile(plain);
    closeDialog();
  };
  return (
    <Dialog
      title={foreign ? t("panels.foreign_title", { tool: foreign.tool }) : t(`panels.plain_${kind}`)}
      size={foreign ? "medium" : "small"}
      description={foreign ? t("panels.foreign_text") : reason}
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
      {foreign && <ForeignPicture foreign={foreign} />}
      {address && kind === "audio" && <Sound src={address} label={file.name} />}
    </Dialog>
  );
}

/** What a picture says of how another program made it; null where it says nothing, or until that is known. */
function useForeign({ file, kind }: PlainFile): ForeignFacts | null {
  const [found, setFound] = useState<ForeignFacts | null>(null);
  useEffect(() => {
    let isWanted = kind === "image";
    if (isWanted)
      host.foreign(file).then(
        (facts) => isWanted && setFound(facts),
        () => undefined, // the reason why it was not opened stands there already
      );
    return () => {
      isWanted = false;
    };
  }, [file, kind]);
  return found;
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
