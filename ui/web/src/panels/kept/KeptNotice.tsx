import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { formatBytes } from "../../parts/format";
import { Notice } from "../../parts/Notice";
import { fullness, useKept } from "../../store/kept";
import { openDialog } from "../../store/page";

/** Said before the server takes nothing more, with the way to what takes the room. */
export function KeptNotice() {
  const kept = useKept();
  const why = kept && fullness(kept);
  if (!why) return null;
  const sizes = { used: formatBytes(kept.num_bytes), most: formatBytes(kept.most_bytes) };
  return (
    <Notice kind="warning">
      {why === "quota"
        ? t("panels.kept_nearly_full", sizes)
        : t("panels.kept_disk_full", { free: formatBytes(kept.free_bytes) })}{" "}
      <Button kind="ghost" onClick={() => openDialog("kept")}>
        {t("panels.kept_show")}
      </Button>
    </Notice>
  );
}
