import { t } from "../i18n";
import { Button } from "../parts/Button";
import { openDialog } from "../store/page";
import { openPalette } from "./commands/freePlace";

/** What a canvas without nodes says: the two ways to start. */
export function EmptyCanvas() {
  return (
    <div className="ll-canvas-empty">
      <p className="ll-canvas-empty-title">{t("canvas.empty_title")}</p>
      <p>{t("canvas.empty_text")}</p>
      <div>
        <Button icon="grid" kind="primary" onClick={() => openDialog("templates")}>
          {t("canvas.open_template")}
        </Button>
        <Button icon="plus" onClick={() => openPalette()}>
          {t("canvas.add")}
        </Button>
      </div>
    </div>
  );
}
