import { useEffect, useState } from "react";
import { host, sentence } from "../../host";
import { t } from "../../i18n";
import { CopyButton } from "../../parts/CopyButton";
import { Notice } from "../../parts/Notice";
import { Dialog } from "../../parts/overlays/Dialog";
import { Spinner } from "../../parts/Spinner";
import { useEditor } from "../../store/editor";
import { closeDialog } from "../../store/page";
import { sharedLink } from "../../store/links";

/** A link that opens the saved workflow for any user of this server. */
export function ShareDialog() {
  const id = useEditor((state) => state.workflow?.id ?? "");
  const isDirty = useEditor((state) => state.isDirty);
  const [link, setLink] = useState("");
  const [error, setError] = useState("");
  useEffect(() => {
    host.shareWorkflow(id).then(
      ({ token }) => setLink(sharedLink(token)),
      (reason: unknown) => setError(sentence(reason)),
    );
  }, [id]);
  return (
    <Dialog title={t("panels.share_title")} description={t("panels.share_text")} onClose={closeDialog}>
      {error && <Notice kind="error">{error}</Notice>}
      {!error && !link && <Spinner label={t("panels.share_making")} isVisible />}
      {link && (
        <div className="ll-share">
          <input
            className="ll-input"
            readOnly
            value={link}
            aria-label={t("panels.share_link")}
            onFocus={(event) => event.target.select()}
          />
          <CopyButton text={link} label={t("panels.share_copy")} />
        </div>
      )}
      {isDirty && <Notice>{t("panels.share_dirty")}</Notice>}
    </Dialog>
  );
}
