/** The yes-or-no question that `confirm` asks. */

import { t } from "../i18n";
import { Button } from "../parts/Button";
import { Dialog } from "../parts/overlays/Dialog";
import { usePage } from "../store/page";

export function Question() {
  const question = usePage((state) => state.question);
  if (!question) return null;
  const { text, answer } = question;
  return (
    <Dialog
      title={t("frame.question")}
      role="alertdialog"
      size="small"
      onClose={() => answer(false)}
      footer={
        <>
          <Button onClick={() => answer(false)}>{t("frame.no")}</Button>
          <Button kind="primary" onClick={() => answer(true)}>
            {t("frame.yes")}
          </Button>
        </>
      }
    >
      <p>{text}</p>
    </Dialog>
  );
}
