import { useState } from "react";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import type { Result } from "../../types";
import { gallery, useGallery } from "../galleryState";
import { Marks, Star } from "../marks/Marks";
import { deleteResults, downloadAll } from "../resultActions";

/** What can be done with the results that are chosen. */
export function ChoiceBar({ items }: { items: readonly Result[] }) {
  const chosen = useGallery((state) => state.chosen);
  const [isMarking, setMarking] = useState(false);
  const { setChoosing, show } = gallery.getState();
  const results = items.filter((item) => chosen.has(item.id));
  // The older one is A: what came later is compared with what was before.
  const [b, a] = results;
  return (
    <div className="ll-choice-bar" role="toolbar" aria-label={t("gallery.chosen_actions")}>
      <span role="status">{t("gallery.chosen", { count: results.length })}</span>
      <Button
        kind="primary"
        icon="compare"
        disabled={results.length !== 2}
        title={results.length === 2 ? undefined : t("gallery.compare_needs_two")}
        onClick={() => a && b && show({ view: "compare", a, b })}
      >
        {t("gallery.compare")}
      </Button>
      <Star results={results} />
      <Button
        icon="tag"
        aria-expanded={isMarking}
        disabled={results.length === 0}
        onClick={() => setMarking(!isMarking)}
      >
        {t("gallery.mark")}
      </Button>
      <Button icon="download" disabled={results.length === 0} onClick={() => void downloadAll(results)}>
        {t("gallery.download")}
      </Button>
      <Button
        kind="danger"
        icon="trash"
        disabled={results.length === 0}
        onClick={() => void deleteResults(results.map((result) => result.id))}
      >
        {t("gallery.delete")}
      </Button>
      <Button
        kind="ghost"
        onClick={() =>
          setChoosing(
            true,
            items.map((item) => item.id),
          )
        }
      >
        {t("gallery.choose_all")}
      </Button>
      <Button kind="ghost" icon="close" onClick={() => setChoosing(false)}>
        {t("gallery.choose_none")}
      </Button>
      {isMarking && results.length > 0 && <Marks results={results} />}
    </div>
  );
}
