import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { Dialog } from "../../parts/Dialog";
import { closeDialog, openDialog } from "../../store/page";
import { overwrite } from "../files";

/** Another tab saved this workflow in the meantime. */
export function Conflict({ reason }: { reason: string }) {
  return (
    <Dialog
      title={t("panels.conflict")}
      size="small"
      role="alertdialog"
      description={reason}
      onClose={closeDialog}
      footer={
        <>
          <Button kind="ghost" onClick={closeDialog}>
            {t("panels.cancel_dialog")}
          </Button>
          <Button onClick={() => void overwrite()}>{t("panels.overwrite")}</Button>
          <Button kind="primary" onClick={() => openDialog("saveAs")}>
            {t("panels.save_copy")}
          </Button>
        </>
      }
    >
      <p>{t("panels.conflict_text")}</p>
    </Dialog>
  );
}
