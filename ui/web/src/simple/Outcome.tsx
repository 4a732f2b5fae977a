import { readPlace } from "../graph/file/layout";
import type { ReactNode } from "react";
import { t } from "../i18n";
import { Button } from "../parts/Button";
import { Empty } from "../parts/Empty";
import { formatSeconds } from "../parts/format";
import { Notice } from "../parts/Notice";
import { isOver, useRun } from "../store/live";
import type { GraphFile, Result, Run } from "../types";
import { Progress } from "./Progress";
import { ResultCard } from "./ResultCard";
import { failureOf } from "./runProgress";
import { useElapsed } from "./useElapsed";
import { useResults, type ReadResults } from "./useResults";

interface OutcomeProps {
  runId: string | null;
  graph: GraphFile;
  /** What a node is called; "" where that says nothing to whoever looks. */
  titleOf: (node: string) => string;
  /** What is said where nothing else can be. */
  texts: { failed: string; noResults: string };
  /** Reads what a run made. */
  read?: ReadResults;
  /** null: the workflow has no seed to change. */
  onAgain: (() => void) | null;
  /** What else can be done once a run is done. */
  more?: (run: Run) => ReactNode;
}

/** The run that the form started: its progress while it works, then its results. */
export function Outcome({ runId, graph, titleOf, texts, read, onAgain, more }: OutcomeProps) {
  const run = useRun(runId);
  const { results: made, error, isRead } = useResults(run, read);
  const results = shownOf(graph, made);
  if (!run) return <Empty icon="image" title={t("simple.nothing_yet")} text={t("simple.nothing_yet_text")} />;
  return (
    <>
      {run.note && <Notice>{run.note}</Notice>}
      {!isOver(run.state) && <Progress run={run} graph={graph} titleOf={titleOf} />}
      {run.state === "failed" && <Notice kind="error">{failureOf(run) || texts.failed}</Notice>}
      {run.state === "cancelled" && <Notice>{t("simple.cancelled")}</Notice>}
      {run.state === "done" && <Done run={run} onAgain={onAgain} more={more?.(run)} />}
      {run.state === "done" && isRead && results.length === 0 && !error && <Notice>{texts.noResults}</Notice>}
      {error && <Notice kind="error">{error}</Notice>}
      <div className={results.length > 1 ? "ll-outcomes ll-outcomes-many" : "ll-outcomes"}>
        {results.map((result) => (
          <ResultCard key={result.id} result={result} />
        ))}
      </div>
    </>
  );
}

/** Without those of nodes that the workflow does not show here; all of them where that leaves none. */
function shownOf(graph: GraphFile, results: readonly Result[]): readonly Result[] {
  const shown = results.filter(({ node }) => !readPlace(graph.layout ?? {}, node.split("/", 1)[0]!).isUnshown);
  return shown.length > 0 ? shown : results;
}

/** How long it took, and what to do next. */
function Done({ run, onAgain, more }: { run: Run; onAgain: (() => void) | null; more: ReactNode }) {
  const elapsed = useElapsed(run);
  return (
    <div className="ll-simple-next">
      <p className="ll-hint" role="status">
        {t("simple.took", { time: formatSeconds(run.seconds || elapsed) })}
      </p>
      {onAgain && (
        <Button icon="dice" onClick={onAgain}>
          {t("simple.again")}
        </Button>
      )}
      {more}
    </div>
  );
}
