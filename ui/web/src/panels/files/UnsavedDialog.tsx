import { useState } from "react";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { Dialog } from "../../parts/overlays/Dialog";
import { useEditor } from "../../store/editor";
import { save } from "./fileActions";

/** Asked before another workflow takes the place of one with changes. */
export function UnsavedDialog({ answer }: { answer: (mayLeave: boolean) => void }) {
  const name = useEditor((state) => state.whole.name);
  const [isBusy, setBusy] = useState(false);
  const saveFirst = () => {
    setBusy(true);
    void save().then(answer);
  };
  return (
    <Dialog
      title={t("panels.unsaved")}
      size="small"
      role="alertdialog"
      onClose={() => answer(false)}
      footer={
        <>
          <Button kind="ghost" onClick={() => answer(false)}>
            {t("panels.cancel_dialog")}
          </Button>
          <Button onClick={() => answer(true)}>{t("panels.drop")}</Button>
          <Button kind="primary" icon="save" isBusy={isBusy} onClick={saveFirst}>
            {t("panels.save")}
          </Button>
        </>
      }
    >
      <p>{t("panels.unsaved_text", { name })}</p>
    </Dialog>
  );
}
