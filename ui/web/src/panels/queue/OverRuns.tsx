import { useEffect, useRef } from "react";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { LongList } from "../../parts/long/LongList";
import { Spinner } from "../../parts/Spinner";
import type { Run } from "../../types";
import { removeRuns } from "../runs/runActions";
import { mayBeOlder, readOlder, useOlderRuns } from "./olderRuns";
import { LANDING, RunEntry, SCROLLER, USUAL_HEIGHT } from "./RunEntry";

/** So far before its end the list goes on. */
const AHEAD = "800px";

/** Runs that are over; older ones are read as one scrolls. */
export function OverRuns({ over, numTold }: { over: readonly Run[]; numTold: number }) {
  const failed = over.filter((run) => run.state !== "done");
  const { isEnd, isLoading, problem } = useOlderRuns();
  const hasMore = mayBeOlder(numTold) && !isEnd;
  return (
    <section aria-labelledby="ll-queue-over">
      <header className="ll-panel-head">
        <h3 id="ll-queue-over">{t("panels.queue_over")}</h3>
        {failed.length > 0 && (
          <Button kind="ghost" onClick={() => void removeRuns(failed)}>
            {t("panels.clear_failed")}
          </Button>
        )}
      </header>
      <LongList
        keys={over.map(({ id }) => id)}
        usual={USUAL_HEIGHT}
        scroller={SCROLLER}
        isWhole={!hasMore}
        className="ll-run-list"
        landing={LANDING}
        draw={(index, frame) => {
          const run = over[index];
          return run && <RunEntry key={run.id} run={run} frame={frame} />;
        }}
      />
      {isLoading && <Spinner label={t("panels.loading_runs")} isVisible />}
      {problem && (
        <p role="alert" className="ll-run-error">
          {problem} <Button onClick={() => void readOlder()}>{t("gallery.again")}</Button>
        </p>
      )}
      {hasMore && !isLoading && !problem && <End count={over.length} />}
    </section>
  );
}

/** Reads the next page as soon as it is nearly in sight. */
function End({ count }: { count: number }) {
  const mark = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = mark.current;
    if (!element) return;
    const watcher = new IntersectionObserver(
      (entries) => {
        if (entries.some((entry) => entry.isIntersecting)) void readOlder();
      },
      { root: element.closest(SCROLLER), rootMargin: AHEAD },
    );
    watcher.observe(element);
    return () => watcher.disconnect();
  }, [count]);
  return <div ref={mark} className="ll-long-end" />;
}
