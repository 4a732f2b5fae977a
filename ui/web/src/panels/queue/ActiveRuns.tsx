import { useState, type DragEvent } from "react";
import { plural, t } from "../../i18n";
import { Button } from "../../parts/Button";
import { LongList } from "../../parts/long/LongList";
import { Notice } from "../../parts/Notice";
import { useServerNow } from "../../store/left";
import { confirm, usePage } from "../../store/page";
import type { QueueEntry, Run } from "../../types";
import { cancelAll, move } from "../runs/runActions";
import { ChosenBar } from "./ChosenBar";
import { beforeOf } from "./queueOrder";
import { CHECK, LANDING, OtherEntry, RunEntry, SCROLLER, USUAL_HEIGHT, type Order } from "./RunEntry";
import { waitsOf } from "./waits";

/** Of the runs that may wait: from here on it is said. */
const NEARLY_ALL = 0.8;

interface ActiveProps {
  queue: readonly QueueEntry[];
  runs: Readonly<Record<string, Run>>;
}

/** The queue itself; runs of one's own are moved by drag, by their buttons or Alt and an arrow key, and chosen to be
 * cancelled or put off together. */
export function ActiveRuns({ queue, runs }: ActiveProps) {
  const [chosen, setChosen] = useState<ReadonlySet<string> | null>(null);
  const mine = queue.flatMap(({ is_mine, id }) => (is_mine && id && runs[id] ? [id] : []));
  const most = usePage((state) => state.me?.most_waiting ?? 0);
  const numWaiting = queue.filter((entry) => entry.is_mine && entry.state === "waiting").length;
  const cancelMine = async () => {
    const count = mine.length;
    if (count > 1 && !(await confirm(t(`panels.confirm_cancel_${plural(count)}`, { count })))) return;
    await cancelAll();
  };
  return (
    <section aria-labelledby="ll-queue-active">
      <header className="ll-panel-head">
        <h3 id="ll-queue-active">{t("panels.queue_active")}</h3>
        {mine.length > 0 && (
          <div className="ll-queue-tools">
            <Button kind="ghost" aria-pressed={chosen !== null} onClick={() => setChosen(chosen ? null : new Set())}>
              {t("panels.queue_select")}
            </Button>
            <Button kind="ghost" onClick={() => void cancelMine()}>
              {t("panels.cancel_all_short")}
            </Button>
          </div>
        )}
      </header>
      {most > 0 && numWaiting >= NEARLY_ALL * most && (
        <Notice kind="warning">{t("panels.queue_nearly_full", { count: numWaiting, most })}</Notice>
      )}
      {chosen && mine.length > 0 && <ChosenBar mine={mine} runs={runs} chosen={chosen} onChange={setChosen} />}
      {queue.length === 0 ? (
        <p className="ll-quiet">{t("panels.queue_none")}</p>
      ) : (
        <Entries queue={queue} runs={runs} chosen={chosen} onChosen={setChosen} mine={mine} />
      )}
    </section>
  );
}

interface EntriesProps extends ActiveProps {
  mine: readonly string[];
  chosen: ReadonlySet<string> | null;
  onChosen: (chosen: ReadonlySet<string>) => void;
}

function Entries({ queue, runs, mine, chosen, onChosen }: EntriesProps) {
  const [dragged, setDragged] = useState<string | null>(null);
  const [last, setLast] = useState("");
  const now = useServerNow(queue.some(({ left_at }) => left_at > 0));
  const waits = waitsOf(queue, runs, now);
  const waiting = queue.flatMap((entry) => (entry.is_mine && entry.id && entry.state === "waiting" ? [entry.id] : []));
  const keys = queue.map(({ id }, index) => id ?? `other ${index}`);

  const choose = (id: string, isChosen: boolean, isRange: boolean) => {
    const [from, to] = [mine.indexOf(last), mine.indexOf(id)].sort((a, b) => a - b) as [number, number];
    const next = new Set(chosen);
    for (const each of isRange && from >= 0 ? mine.slice(from, to + 1) : [id])
      if (isChosen) next.add(each);
      else next.delete(each);
    setLast(id);
    onChosen(next);
  };
  const orderOf = (id: string, hold: (key: string | null) => void): Order => {
    const place = waiting.indexOf(id);
    return {
      isFirst: place === 0,
      isLast: place === waiting.length - 1,
      isDragged: dragged === id,
      onUp: () => void move(id, waiting[place - 1] ?? null),
      onDown: () => void move(id, waiting[place + 2] ?? null),
      onDragStart: () => {
        hold(id); // a browser ends a drag whose source is gone
        setDragged(id);
      },
      onDragEnd: () => {
        hold(null);
        setDragged(null);
      },
      onDrop: (event: DragEvent) => {
        event.preventDefault();
        if (dragged && dragged !== id) void move(dragged, beforeOf(waiting, dragged, id));
        setDragged(null);
      },
    };
  };
  return (
    <LongList
      isOrdered
      keys={keys}
      usual={USUAL_HEIGHT}
      scroller={SCROLLER}
      className="ll-run-list"
      landing={chosen ? CHECK : LANDING}
      draw={(index, frame, hold) => {
        const entry = queue[index];
        const run = entry?.id ? runs[entry.id] : undefined;
        if (!entry) return null;
        if (!run) return <OtherEntry key={keys[index]} entry={entry} frame={frame} />;
        return (
          <RunEntry
            key={run.id}
            run={run}
            frame={frame}
            wait={waits.get(run.id)}
            order={run.state === "waiting" ? orderOf(run.id, hold) : undefined}
            choice={chosen ? { isChosen: chosen.has(run.id), onChoose: choose } : undefined}
          />
        );
      }}
    />
  );
}
