import { useMemo } from "react";
import { t } from "../../i18n";
import { Empty } from "../../parts/Empty";
import { isOver, useQueue, useRuns } from "../../store/live";
import { KeptNotice } from "../kept/KeptNotice";
import { ActiveRuns } from "./ActiveRuns";
import { useOlderRuns } from "./olderRuns";
import { OverRuns } from "./OverRuns";

/** All runs: those that run and wait, in order, and those that are over, newest first. */
export function QueuePanel() {
  const queue = useQueue();
  const runs = useRuns();
  const { runs: older } = useOlderRuns();
  const told = useMemo(() => Object.values(runs).filter((run) => isOver(run.state)), [runs]);
  const over = useMemo(() => {
    const all = [...told, ...older.filter(({ id }) => runs[id] === undefined)];
    return all.sort((a, b) => (b.ended ?? 0) - (a.ended ?? 0));
  }, [told, older, runs]);
  if (queue.length === 0 && over.length === 0) {
    return <Empty icon="queue" title={t("panels.queue_empty")} text={t("panels.queue_empty_text")} />;
  }
  return (
    <div className="ll-panel">
      <KeptNotice />
      <ActiveRuns queue={queue} runs={runs} />
      {over.length > 0 && <OverRuns over={over} numTold={told.length} />}
    </div>
  );
}
