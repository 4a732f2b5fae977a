import { useState, type DragEvent } from "react";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { Empty } from "../../parts/Empty";
import { isOver, useQueue, useRuns } from "../../store/live";
import type { QueueEntry, Run } from "../../types";
import { beforeOf } from "./queueOrder";
import { move, removeRuns } from "./runActions";
import { OtherEntry, RunEntry } from "./RunEntry";

const SHOWN_OVER = 40;

/** All runs: those that run and wait, in order, and those that are over, newest first. */
export function QueuePanel() {
  const queue = useQueue();
  const runs = useRuns();
  const over = Object.values(runs).filter((run) => isOver(run.state));
  over.sort((a, b) => (b.ended ?? 0) - (a.ended ?? 0));
  const failed = over.filter((run) => run.state !== "done");
  if (queue.length === 0 && over.length === 0) {
    return <Empty icon="queue" title={t("panels.queue_empty")} text={t("panels.queue_empty_text")} />;
  }
  return (
    <div className="ll-panel">
      <section aria-labelledby="ll-queue-active">
        <h3 id="ll-queue-active">{t("panels.queue_active")}</h3>
        {queue.length === 0 ? (
          <p className="ll-quiet">{t("panels.queue_none")}</p>
        ) : (
          <Active queue={queue} runs={runs} />
        )}
      </section>
      {over.length > 0 && (
        <section aria-labelledby="ll-queue-over">
          <header className="ll-panel-head">
            <h3 id="ll-queue-over">{t("panels.queue_over")}</h3>
            {failed.length > 0 && (
              <Button kind="ghost" onClick={() => void removeRuns(failed)}>
                {t("panels.clear_failed")}
              </Button>
            )}
          </header>
          <ul className="ll-run-list">
            {over.slice(0, SHOWN_OVER).map((run) => (
              <RunEntry key={run.id} run={run} />
            ))}
          </ul>
        </section>
      )}
    </div>
  );
}

interface ActiveProps {
  queue: readonly QueueEntry[];
  runs: Readonly<Record<string, Run>>;
}

/** The queue itself; waiting runs of one's own can be moved by drag and by their buttons. */
function Active({ queue, runs }: ActiveProps) {
  const [dragged, setDragged] = useState<string | null>(null);
  const waiting = queue.flatMap((entry) => (entry.is_mine && entry.id && entry.state === "waiting" ? [entry.id] : []));

  const dropOn = (id: string) => (event: DragEvent) => {
    event.preventDefault();
    if (dragged && dragged !== id) void move(dragged, beforeOf(waiting, dragged, id));
    setDragged(null);
  };
  return (
    <ol className="ll-run-list">
      {queue.map((entry, index) => {
        const run = entry.id ? runs[entry.id] : undefined;
        if (!run) return <OtherEntry key={index} entry={entry} />;
        const place = waiting.indexOf(run.id);
        if (place < 0) return <RunEntry key={run.id} run={run} />;
        return (
          <RunEntry
            key={run.id}
            run={run}
            order={{
              isFirst: place === 0,
              isLast: place === waiting.length - 1,
              isDragged: dragged === run.id,
              onUp: () => void move(run.id, waiting[place - 1] ?? null),
              onDown: () => void move(run.id, waiting[place + 2] ?? null),
              onDragStart: () => setDragged(run.id),
              onDragEnd: () => setDragged(null),
              onDrop: dropOn(run.id),
            }}
          />
        );
      })}
    </ol>
  );
}
