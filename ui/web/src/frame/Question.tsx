/** The yes-or-no question that `confirm` asks. */

import { t } from "../i18n";
import { Button } from "../parts/Button";
import { Dialog } from "../parts/overlays/Dialog";
import { usePage } from "../store/page";

export function Question() {
  const question = usePage((state) => state.question);
  if (!question) return null;
  const { text, yes, answer } = question;
  return (
    <Dialog
      title={t("frame.question")}
      role="alertdialog"
      size="small"
      onClose={() => answer(false)}
      footer={
        <>
          <Button onClick={() => answer(false)}>{t(yes ? "panels.cancel_dialog" : "frame.no")}</Button>
          <Button kind="primary" onClick={() => answer(true)}>
            {yes ?? t("frame.yes")}
          </Button>
        </>
      }
    >
      {text.split("\n").map((line) => (
        <p key={line}>{line}</p>
      ))}
    </Dialog>
  );
}
