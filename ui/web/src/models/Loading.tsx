import { useEffect, useMemo } from "react";
import { t } from "../i18n";
import { Meter } from "../parts/Meter";
import { useRuns } from "../store/live";
import type { NodeState, Run } from "../types";
import { loadModels } from "./modelsStore";
import { worded } from "../worded";

const PHASE = /^loading\b/;

/** What is being brought into memory by the runs of this user; nothing where nothing is. */
export function Loading() {
  const runs = useRuns();
  const loading = useMemo(() => Object.values(runs).flatMap(loadingNodes), [runs]);
  const count = loading.length;
  useEffect(() => {
    // When all is loaded, other parts are in memory than before.
    if (count === 0) void loadModels();
  }, [count]);
  if (count === 0) return null;
  return (
    <section className="ll-sheet" aria-labelledby="ll-loading-title" aria-live="polite">
      <h3 id="ll-loading-title">{t("models.loading")}</h3>
      {loading.map(({ run, node, state }) => (
        <div key={`${run.id} ${node}`} className="ll-machine">
          <p className="ll-machine-title">{worded(state.phase)}</p>
          <Meter label={worded(state.phase)} value={state.done} max={state.total} />
          <p className="ll-hint">{t("models.loading_for", { run: run.name, node })}</p>
        </div>
      ))}
    </section>
  );
}

function loadingNodes(run: Run): { run: Run; node: string; state: NodeState }[] {
  if (run.state !== "running") return [];
  return Object.entries(run.nodes)
    .filter(([, state]) => state.state === "running" && PHASE.test(state.phase))
    .map(([node, state]) => ({ run, node, state }));
}
