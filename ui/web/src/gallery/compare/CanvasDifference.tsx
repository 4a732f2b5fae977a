import { useMemo } from "react";
import { differences } from "../../graph/difference";
import { fromFile } from "../../graph/file/workflowFile";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { Notice } from "../../parts/Notice";
import { Dialog } from "../../parts/overlays/Dialog";
import { Spinner } from "../../parts/Spinner";
import { useEditor } from "../../store/editor";
import type { Result } from "../../types";
import { gallery } from "../galleryState";
import { recallValues } from "../recall/recallActions";
import { useRunRecord } from "../useRunRecord";
import { DifferenceTable } from "./DifferenceTable";

/** What differs between the workflow that made a result and the one on the canvas, node by node. */
export function CanvasDifference({ result }: { result: Result }) {
  const { run, problem } = useRunRecord(result.run);
  const graph = useEditor((state) => state.whole);
  const meant = useEditor((state) => state.meant);
  const catalog = useEditor((state) => state.catalog);
  const rows = useMemo(
    () =>
      run?.graph
        ? differences({ graph: fromFile(run.graph), meant: run.values }, { graph, meant }, catalog)
        : undefined,
    [run, graph, meant, catalog],
  );
  const close = () => gallery.getState().close();
  const lost = problem || (run && !run.graph ? t("gallery.no_graph") : "");
  return (
    <Dialog
      title={t("gallery.canvas_title")}
      size="large"
      onClose={close}
      footer={
        <>
          <Button kind="ghost" onClick={close}>
            {t("widgets.close")}
          </Button>
          {rows && rows.length > 0 && (
            <Button kind="primary" icon="build" onClick={() => void recallValues(result)}>
              {t("gallery.recall_all")}
            </Button>
          )}
        </>
      }
    >
      {lost && <Notice kind="error">{lost}</Notice>}
      {!rows && !lost && <Spinner label={t("gallery.loading")} isVisible />}
      {rows?.length === 0 && <p>{t("gallery.as_canvas")}</p>}
      {rows && rows.length > 0 && <DifferenceTable rows={rows} a={result.name} b={t("gallery.canvas")} />}
    </Dialog>
  );
}
