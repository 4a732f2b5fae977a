import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { Dialog } from "../../parts/overlays/Dialog";
import { closeDialog, openDialog } from "../../store/page";
import { overwrite, type SaveAsked } from "./fileActions";

/** Another tab saved this workflow in the meantime. */
export function ConflictDialog({ reason, answer }: SaveAsked) {
  const close = (isSaved: boolean) => {
    closeDialog();
    answer(isSaved);
  };
  return (
    <Dialog
      title={t("panels.conflict")}
      size="small"
      role="alertdialog"
      description={reason}
      onClose={() => close(false)}
      footer={
        <>
          <Button kind="ghost" onClick={() => close(false)}>
            {t("panels.cancel_dialog")}
          </Button>
          <Button onClick={() => void overwrite().then((isSaved) => isSaved && close(true))}>
            {t("panels.overwrite")}
          </Button>
          <Button kind="primary" onClick={() => openDialog("saveAs", { reason: "", answer } satisfies SaveAsked)}>
            {t("panels.save_copy")}
          </Button>
        </>
      }
    >
      <p>{t("panels.conflict_text")}</p>
    </Dialog>
  );
}
