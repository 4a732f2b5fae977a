import { useEffect, useMemo, useRef } from "react";
import { Compare } from "../gallery/compare/Compare";
import { Detail } from "../gallery/detail/Detail";
import { gallery, useGallery, type Open } from "../gallery/galleryState";
import { ChoiceBar } from "../gallery/list/ChoiceBar";
import { GalleryBar } from "../gallery/list/GalleryBar";
import { ResultList } from "../gallery/list/ResultList";
import { matching } from "../gallery/resultPages";
import { SweepGrid } from "../gallery/sweeps/SweepGrid";
import { SweepStrip } from "../gallery/sweeps/SweepStrip";
import { useResultsRevision } from "../gallery/useResultsRevision";
import { t } from "../i18n";
import { Button } from "../parts/Button";
import { Empty } from "../parts/Empty";
import { go, usePage, type View } from "../store/page";
import type { Result } from "../types";

interface Asked {
  result?: string;
  run?: string;
  batch?: string;
  /** The view to go to again once what is asked for is closed. */
  back?: View;
}

/** All that this user's runs have made: found, looked at, compared, run again. */
export function Gallery() {
  const all = useGallery((state) => state.items);
  const filter = useGallery((state) => state.filter);
  const isChoosing = useGallery((state) => state.isChoosing);
  const opened = useGallery((state) => state.opened);
  const items = useMemo(() => matching(all, filter), [all, filter]);
  const revision = useResultsRevision();
  useEffect(() => {
    void gallery.getState().refresh();
  }, [revision]);
  useAsked(all);

  return (
    <div className="ll-gallery">
      <h2 className="ll-hidden">{t("gallery.title")}</h2>
      <GalleryBar />
      {isChoosing && <ChoiceBar items={items} />}
      <SweepStrip />
      <ResultList items={items} />
      {items.length === 0 && <Nothing />}
      {opened.map((open, index) => (
        <Opened key={`${index} ${open.view}`} open={open} items={items} />
      ))}
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
    else if (result) gallery.getState().show({ view: "detail", result, among: null, back: asked.back });
    else return;
    done.current = asked;
  }, [asked, all]);
}

function Opened({ open, items }: { open: Open; items: readonly Result[] }) {
  if (open.view === "detail") return <Detail result={open.result} among={open.among ?? items} />;
  if (open.view === "compare") return <Compare key={open.a.id} a={open.a} b={open.b} />;
  return <SweepGrid batch={open.batch} />;
}

/** Why the list is empty, and what to do about it. */
function Nothing() {
  const isBusy = useGallery((state) => state.isLoading || !state.isEnd || state.problem !== "");
  const isFiltered = useGallery(
    ({ search, filter }) => search !== "" || filter.kind !== "all" || filter.workflow !== "",
  );
  if (isBusy) return null;
  return isFiltered ? (
    <Empty icon="search" title={t("gallery.nothing_found")} text={t("gallery.nothing_found_hint")}>
      <Button onClick={() => gallery.getState().setFilter({ kind: "all", workflow: "" })}>
        {t("gallery.clear_filters")}
      </Button>
    </Empty>
  ) : (
    <Empty icon="image" title={t("gallery.empty")} text={t("gallery.empty_hint")}>
      <Button kind="primary" icon="build" onClick={() => go("build")}>
        {t("gallery.go_build")}
      </Button>
    </Empty>
  );
}
