import { useState } from "react";
import { urls } from "../../host";
import { t } from "../../i18n";
import { MaskOnResult } from "../../material/mask/MaskOnResult";
import { Button } from "../../parts/Button";
import { download } from "../../parts/download";
import { go, toast } from "../../store/page";
import type { Result } from "../../types";
import { gallery, replaceResult } from "../galleryState";
import { RecallMenu } from "../recall/RecallMenu";
import { deleteResults, openMaker } from "../resultActions";
import { Rerun } from "./Rerun";

/** What one can do with a result; `after` is shown once it is deleted. */
export function ResultButtons({ result, after }: { result: Result; after: Result | undefined }) {
  const [isChanging, setChanging] = useState(false);
  const [isPainting, setPainting] = useState(false);
  const { show, close, setChoosing } = gallery.getState();

  const remove = async () => {
    if (!(await deleteResults([result.id]))) return;
    if (after) replaceResult(after);
    else close();
  };
  const compare = () => {
    close(true);
    go("gallery");
    setChoosing(true, [result.id]);
    toast({ kind: "info", text: t("gallery.choose_second") });
  };

  return (
    <>
      <div className="ll-detail-actions">
        <Button kind="primary" icon="build" onClick={() => void openMaker(result)}>
          {t("gallery.open_maker")}
        </Button>
        <RecallMenu result={result} />
        <Button icon="refresh" aria-expanded={isChanging} onClick={() => setChanging(!isChanging)}>
          {t("gallery.rerun")}
        </Button>
        <Button icon="compare" onClick={compare}>
          {t("gallery.compare_with")}
        </Button>
        {Object.keys(result.varied).length > 0 && (
          <Button icon="grid" onClick={() => show({ view: "sweep", batch: result.batch })}>
            {t("gallery.show_sweep")}
          </Button>
        )}
        {result.kind === "image" && (
          <Button icon="edit" onClick={() => setPainting(true)}>
            {t("material.paint_on_result")}
          </Button>
        )}
        <Button icon="download" onClick={() => download(urls.download(result.id), result.name)}>
          {t("gallery.download")}
        </Button>
        <Button icon="compare" onClick={() => show({ view: "canvas", result })}>
          {t("gallery.compare_canvas")}
        </Button>
        <Button kind="danger" icon="trash" onClick={() => void remove()}>
          {t("gallery.delete")}
        </Button>
      </div>
      {isChanging && <Rerun result={result} />}
      {isPainting && <MaskOnResult result={result} onClose={() => setPainting(false)} />}
    </>
  );
}
