import { useRef, useState, type KeyboardEvent } from "react";
import { t } from "../../i18n";
import { SoundPlayer, VideoPlayer } from "../../material/lazy";
import { IconButton } from "../../parts/IconButton";
import { Notice } from "../../parts/Notice";
import { Dialog } from "../../parts/overlays/Dialog";
import type { Result } from "../../types";
import { gallery, replaceResult } from "../galleryState";
import { Marks, Star } from "../marks/Marks";
import { neighbour } from "../resultPages";
import { describe } from "../resultWords";
import { Shown } from "../stage/Shown";
import { Stage } from "../stage/Stage";
import { WHOLE, type View } from "../stage/zoom";
import { Facts } from "./Facts";
import { ResultButtons } from "./ResultButtons";
import { useIsGone } from "./useIsGone";

/** One result, large, with all that is known about it; arrow keys go to the previous and the next. */
export function Detail({ result, among }: { result: Result; among: readonly Result[] }) {
  const [look, setLook] = useState<{ id: string; view: View }>({ id: result.id, view: WHOLE });
  const isGone = useIsGone(result.id);
  const beside = useRef<{ newer?: Result | undefined; older?: Result | undefined }>({});
  if (among.some(({ id }) => id === result.id))
    beside.current = { newer: neighbour(among, result.id, -1), older: neighbour(among, result.id, 1) };
  const { newer, older } = beside.current; // of one that is gone, those that it lay between
  const goTo = (to: Result | undefined) => to && replaceResult(to);

  const onKeyDown = (event: KeyboardEvent) => {
    const target = event.target as HTMLElement;
    if (event.shiftKey || event.altKey || event.ctrlKey || event.metaKey) return;
    if (target.closest("input, textarea, select, video, audio, [role=combobox], [role=slider]")) return;
    if (event.key === "ArrowLeft") goTo(newer);
    else if (event.key === "ArrowRight") goTo(older);
  };

  const title = result.workflow_name ? `${result.workflow_name}: ${result.name}` : result.name;
  return (
    <Dialog title={title} size="full" onClose={() => gallery.getState().close()}>
      <div className="ll-detail" onKeyDown={onKeyDown}>
        <div className="ll-detail-picture">
          {result.kind === "audio" ? (
            <SoundPlayer key={result.id} result={result} hasUse />
          ) : result.kind === "video" ? (
            <VideoPlayer key={result.id} result={result} />
          ) : (
            <Stage
              label={describe(result)}
              picture={result}
              view={look.id === result.id ? look.view : WHOLE}
              onView={(view) => setLook({ id: result.id, view })}
            >
              {(placement) => <Shown key={result.id} result={result} placement={placement} />}
            </Stage>
          )}
          <Star results={[result]} className="ll-detail-star" />
          <IconButton
            icon="chevron-left"
            size={24}
            className="ll-detail-step ll-detail-newer"
            label={t("gallery.newer")}
            disabled={!newer}
            onClick={() => goTo(newer)}
          />
          <IconButton
            icon="chevron-right"
            size={24}
            className="ll-detail-step ll-detail-older"
            label={t("gallery.older")}
            disabled={!older}
            onClick={() => goTo(older)}
          />
        </div>
        <div className="ll-detail-side">
          {isGone && <Notice kind="error">{t("gallery.gone")}</Notice>}
          <ResultButtons key={result.id} result={result} after={older ?? newer} />
          <Marks key={`marks ${result.id}`} results={[result]} />
          <Facts result={result} />
        </div>
      </div>
    </Dialog>
  );
}
