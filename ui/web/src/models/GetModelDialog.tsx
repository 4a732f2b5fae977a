import { t } from "../i18n";
import { Dialog } from "../parts/overlays/Dialog";
import { closeDialog } from "../store/page";
import { FetchModel } from "./FetchModel";

/** The same as in the tab Models, for a model that a workflow asks for. */
export function GetModelDialog({ model }: { model: string }) {
  return (
    <Dialog title={t("models.get")} description={t("models.fetch_text")} onClose={closeDialog}>
      <FetchModel initial={model} />
    </Dialog>
  );
}
