import type { ToCopy } from "../../canvas/commands/copyAs";
import { t } from "../../i18n";
import { Dialog } from "../../parts/overlays/Dialog";
import { closeDialog } from "../../store/page";

/** A text to copy by hand, where the browser gives pages no clipboard: over plain http from another machine. */
export function TextDialog({ form, text }: ToCopy) {
  return (
    <Dialog title={t(`canvas.copy_as_${form}`)} description={t("canvas.copy_by_hand")} onClose={closeDialog}>
      <textarea
        className="ll-input ll-text-to-copy"
        readOnly
        autoFocus
        rows={12}
        value={text}
        aria-label={t(`canvas.copy_as_${form}`)}
        onFocus={(event) => event.target.select()}
      />
    </Dialog>
  );
}
