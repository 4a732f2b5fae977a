import { useEffect, useState } from "react";
import { kindOf } from "../../canvas/look";
import { specOf, titleOf } from "../../graph/catalog";
import { typeIn } from "../../graph/subs";
import { t } from "../../i18n";
import { formatSeconds } from "../../parts/format";
import { IconButton } from "../../parts/IconButton";
import { useEditor } from "../../store/editor";
import { isOver, serverNow, useDevices, useWatchedRun } from "../../store/live";
import type { Run } from "../../types";
import { isStarting } from "../../store/liveState";
import { percentOf } from "../../store/left";
import { setLanesOpen, usePanels } from "../panelState";
import { LaneRow } from "./LaneRow";
import { lanesOf } from "./timeline";

const TICK_MS = 250;

/** Below the canvas while a run is shown on it: what each device or rank does, and when it did what. */
export function Lanes() {
  const run = useWatchedRun();
  return run?.started ? <LanesOf run={run} /> : null;
}

function LanesOf({ run }: { run: Run }) {
  const isOpen = usePanels((state) => state.areLanesOpen);
  const devices = useDevices();
  const graph = useEditor((state) => state.whole);
  const catalog = useEditor((state) => state.catalog);
  const now = useNow(!isOver(run.state));
  const end = run.ended ?? now;
  // A node that is not in this workflow is of a run of another one: nobody knows what it used.
  const usesDevice = (node: string) => specOf(catalog, typeIn(graph, node))?.uses_device ?? true;
  const lanes = lanesOf({ run, devices, now: end, usesDevice });
  const percent = percentOf(run, now);
  const seconds = Math.max(end - (run.started ?? end), 0.1);
  return (
    <section className="ll-lanes" aria-label={t("panels.lanes")}>
      <header className="ll-lanes-head">
        <IconButton
          icon={isOpen ? "chevron-down" : "chevron-up"}
          label={t(isOpen ? "panels.hide_lanes" : "panels.show_lanes")}
          aria-expanded={isOpen}
          onClick={() => setLanesOpen(!isOpen)}
        />
        <h2>{t("panels.lanes")}</h2>
        <span className="ll-quiet">
          {run.name}, {t(`panels.state_${run.state}`)}
          {percent && `, ${percent}`}, {formatSeconds(seconds)}
          {run.plan && `, ${run.plan}`}
        </span>
      </header>
      {isOpen && (
        <ul className={`ll-lane-list ${lanes.some((lane) => lane.exchanges > 0) ? "ll-lanes-linked" : ""}`}>
          {lanes.map((lane) => (
            <LaneRow
              key={lane.rank}
              lane={lane}
              hasRanks={lanes.length > 1}
              isStarting={isStarting(run)}
              seconds={seconds}
              device={devices.find((device) => device.name === lane.device)}
              titleOf={(node) => titleOf(graph, catalog, node)}
              toneOf={(node) => kindOf(specOf(catalog, typeIn(graph, node))).tone}
            />
          ))}
        </ul>
      )}
    </section>
  );
}

/** Epoch seconds, moving while a run is on. */
function useNow(isMoving: boolean): number {
  const [now, setNow] = useState(serverNow);
  useEffect(() => {
    if (!isMoving) return;
    const timer = setInterval(() => setNow(serverNow()), TICK_MS);
    return () => clearInterval(timer);
  }, [isMoving]);
  return now;
}
