import { useMemo, useState, type ReactNode } from "react";
import { fromFile } from "../../graph/file/workflowFile";
import { t } from "../../i18n";
import { moment } from "../../parts/format";
import { IconButton } from "../../parts/IconButton";
import { Notice } from "../../parts/Notice";
import { Dialog } from "../../parts/overlays/Dialog";
import { Tabs } from "../../parts/Tabs";
import { useEditor } from "../../store/editor";
import type { Result } from "../../types";
import { gallery } from "../galleryState";
import { WHOLE, type View } from "../stage/zoom";
import { useRunRecord } from "../useRunRecord";
import { ByDifference } from "./ByDifference";
import { BySide } from "./BySide";
import { BySlider } from "./BySlider";
import { BySound } from "./BySound";
import { DifferenceTable } from "./DifferenceTable";
import { differing, type Makers } from "./differing";
import { PlaybackBar } from "./PlaybackBar";
import { usePlayback } from "./usePlayback";

type Way = "slider" | "side" | "difference";

/** Two results beside each other: what they were made with that differs, and three ways to see it, or both to be heard. */
export function Compare({ a, b }: { a: Result; b: Result }) {
  const [way, setWay] = useState<Way>("slider");
  const [view, setView] = useState<View>(WHOLE);
  const playback = usePlayback(a, b);
  const shared = { a, b, view, onView: setView, playback };
  const ways: Record<Way, () => ReactNode> = {
    slider: () => <BySlider {...shared} />,
    side: () => <BySide {...shared} />,
    difference: () => <ByDifference {...shared} />,
  };
  return (
    <Dialog title={t("gallery.compare_title")} size="full" onClose={() => gallery.getState().close()}>
      <div className="ll-compare">
        <Differing a={a} b={b} />
        {a.kind === "audio" && b.kind === "audio" ? (
          <BySound a={a} b={b} />
        ) : a.kind === b.kind ? (
          <Tabs
            label={t("gallery.compare_title")}
            className="ll-compare-ways"
            tabs={[
              { id: "slider", label: t("gallery.by_slider") },
              { id: "side", label: t("gallery.by_side") },
              { id: "difference", label: t("gallery.by_difference") },
            ]}
            selected={way}
            onSelect={(id) => {
              playback.play(false);
              setWay(id as Way);
            }}
          >
            {ways[way]()}
            {a.kind === "video" && <PlaybackBar playback={playback} />}
          </Tabs>
        ) : (
          <Notice kind="warning">{t("gallery.other_kinds")}</Notice>
        )}
      </div>
    </Dialog>
  );
}

/** What the two were made by; until that is read, and where it is lost, why not. */
function useMakers(a: Result, b: Result): { makers: Makers | undefined; problem: string } {
  const [ofA, ofB] = [useRunRecord(a.run), useRunRecord(b.run)];
  const catalog = useEditor((state) => state.catalog);
  const [fileA, fileB] = [ofA.run?.graph, ofB.run?.graph];
  const [meantA, meantB] = [ofA.run?.values, ofB.run?.values];
  const makers = useMemo(
    () =>
      fileA && fileB
        ? {
            a: { graph: fromFile(fileA), end: a.node, meant: meantA ?? {} },
            b: { graph: fromFile(fileB), end: b.node, meant: meantB ?? {} },
            catalog,
          }
        : undefined,
    [fileA, fileB, meantA, meantB, a.node, b.node, catalog],
  );
  const isLost = fileA === null || fileB === null;
  return { makers, problem: ofA.problem || ofB.problem || (isLost ? t("gallery.no_graph") : "") };
}

/** The params, facts and inputs that are not the same, with what each side has. */
function Differing({ a, b }: { a: Result; b: Result }) {
  const { makers, problem } = useMakers(a, b);
  const rows = differing(a, b, t, makers);
  const swap = () => gallery.getState().show({ view: "compare", a: b, b: a });
  return (
    <div className="ll-differing" role="region" aria-label={t("gallery.differing")} tabIndex={0}>
      <DifferenceTable
        rows={rows}
        corner={<IconButton icon="refresh" label={t("gallery.swap")} onClick={swap} />}
        a={
          <>
            <b className="ll-side-a">A</b> {a.name}, {moment(a.time)}
          </>
        }
        b={
          <>
            <b className="ll-side-b">B</b> {b.name}, {moment(b.time)}
          </>
        }
      />
      {problem && <p className="ll-facts-problem">{problem}</p>}
      {rows.length === 0 && makers && <p>{t("gallery.no_difference")}</p>}
    </div>
  );
}
