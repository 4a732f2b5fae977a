import { useEffect, useRef } from "react";
import { gallery, useGallery } from "../gallery/galleryState";
import { ChoiceBar } from "../gallery/list/ChoiceBar";
import { GalleryBar } from "../gallery/list/GalleryBar";
import { ResultList } from "../gallery/list/ResultList";
import { OpenedResults } from "../gallery/OpenedResults";
import { EVERYTHING } from "../gallery/resultPages";
import { SweepStrip } from "../gallery/sweeps/SweepStrip";
import { useResultsRevision } from "../gallery/useResultsRevision";
import { t } from "../i18n";
import { KeptNotice } from "../panels/kept/KeptNotice";
import { Button } from "../parts/Button";
import { Empty } from "../parts/Empty";
import { go, usePage } from "../store/page";
import type { Result } from "../types";

interface Asked {
  result?: string;
  run?: string;
  batch?: string;
}

/** All that this user's runs have made: found, looked at, compared, run again. */
export function Gallery() {
  const items = useGallery((state) => state.items);
  const isChoosing = useGallery((state) => state.isChoosing);
  const revision = useResultsRevision();
  useEffect(() => {
    void gallery.getState().refresh();
  }, [revision]);
  useAsked(items);

  return (
    <div className="ll-gallery">
      <h2 className="ll-hidden">{t("gallery.title")}</h2>
      <GalleryBar />
      {isChoosing && <ChoiceBar items={items} />}
      <KeptNotice />
      <SweepStrip />
      <ResultList items={items} />
      {items.length === 0 && <Nothing />}
      <OpenedResults view="gallery" items={items} />
    </div>
  );
}

/** Another view may ask to see a result, what a run made, or a sweep; `go("gallery", {...})` says which. */
function useAsked(all: readonly Result[]): void {
  const asked = usePage((state) => (state.view === "gallery" ? state.payload : undefined)) as Asked | undefined;
  const done = useRef<unknown>(undefined);
  useEffect(() => {
    if (!asked || done.current === asked) return;
    const result = all.find((each) => each.id === asked.result || each.run === asked.run);
    if (asked.batch) gallery.getState().show({ view: "sweep", batch: asked.batch });
    else if (result) gallery.getState().show({ view: "detail", result, among: null });
    else return;
    done.current = asked;
  }, [asked, all]);
}

/** Why the list is empty, and what to do about it. */
function Nothing() {
  const isBusy = useGallery((state) => state.isLoading || !state.isEnd || state.problem !== "");
  const isFiltered = useGallery(
    ({ search, filter: { kind, workflow, board, isStarred } }) =>
      search !== "" || kind !== "all" || workflow !== "" || board !== "" || isStarred,
  );
  if (isBusy) return null;
  return isFiltered ? (
    <Empty icon="search" title={t("gallery.nothing_found")} text={t("gallery.nothing_found_hint")}>
      <Button onClick={() => gallery.getState().setFilter(EVERYTHING)}>{t("gallery.clear_filters")}</Button>
    </Empty>
  ) : (
    <Empty icon="image" title={t("gallery.empty")} text={t("gallery.empty_hint")}>
      <Button kind="primary" icon="build" onClick={() => go("build")}>
        {t("gallery.go_build")}
      </Button>
    </Empty>
  );
}
