import { useRef, useState } from "react";
import { host, sentence, urls } from "../host";
import { t } from "../i18n";
import { Button } from "../parts/Button";
import { formatLeft, formatSeconds } from "../parts/format";
import { Meter } from "../parts/Meter";
import { useLeft } from "../store/left";
import { useQueue } from "../store/live";
import { toast } from "../store/page";
import type { GraphFile, Run } from "../types";
import { previewOf, progressOf, runningNode } from "./runProgress";
import { useElapsed } from "./useElapsed";
import { worded } from "../worded";

interface ProgressProps {
  run: Run;
  graph: GraphFile;
  /** What a node is called; "" where that says nothing to whoever looks. */
  titleOf: (node: string) => string;
}

/** A run under way: all its nodes in one bar, the seconds left, the picture so far, and Cancel. */
export function Progress({ run, graph, titleOf }: ProgressProps) {
  const before = useNumBefore(run.id);
  const elapsed = useElapsed(run);
  const left = useLeft(run);
  const { part, left_s } = progressOf(run, graph, { elapsed, left: run.is_left_least ? null : left });
  const preview = previewOf(run);
  const isWaiting = run.state === "waiting";
  const what = isWaiting ? waitText(before) : workText(run, titleOf);
  return (
    <div className="ll-sheet ll-progress" data-testid="simple-progress" data-status={run.state}>
      <div className="ll-progress-head">
        <p className="ll-progress-what">{what}</p>
        <CancelButton id={run.id} />
      </div>
      <Bar key={run.id} part={isWaiting ? null : part} text={what} />
      <p className="ll-hint ll-progress-time">
        <span>{isWaiting ? "" : formatSeconds(Math.floor(elapsed))}</span>
        <span>{left_s === null ? "" : t("simple.left", { time: formatLeft(left_s) })}</span>
      </p>
      {preview && (
        <img
          className="ll-progress-preview"
          src={urls.preview(run.id, preview.node, preview.number)}
          alt={t("simple.preview")}
        />
      )}
    </div>
  );
}

/** Never goes back, although a node may tell late how much it has to do. */
function Bar({ part, text }: { part: number | null; text: string }) {
  const most = useRef(0);
  most.current = Math.max(most.current, part ?? 0);
  return <Meter label={t("simple.progress")} value={most.current} max={most.current > 0 ? 1 : 0} text={text} />;
}

function CancelButton({ id }: { id: string }) {
  const [isCancelling, setCancelling] = useState(false);
  const cancel = async () => {
    setCancelling(true);
    try {
      await host.cancelRun(id);
    } catch (error) {
      setCancelling(false);
      toast({ kind: "error", text: sentence(error) });
    }
  };
  return (
    <Button icon="stop" isBusy={isCancelling} onClick={() => void cancel()}>
      {t("simple.cancel")}
    </Button>
  );
}

/** How many runs, of anybody, come first. */
function useNumBefore(id: string): number {
  const queue = useQueue();
  const index = queue.findIndex((entry) => entry.id === id);
  return Math.max(index, 0);
}

function waitText(numBefore: number): string {
  return numBefore === 0 ? t("simple.waiting_next") : t("simple.waiting", { count: numBefore });
}

/** "Denoise: step 3 of 20", or the phase of a node without steps. */
function workText(run: Run, titleOf: (node: string) => string): string {
  const found = runningNode(run);
  if (!found) return t("simple.starting");
  const [name, state] = found;
  const title = titleOf(name);
  const { done, total, phase } = state;
  if (total > 0) return title ? t("simple.step", { node: title, done, total }) : t("simple.only_step", { done, total });
  const said = [title, worded(phase)].filter(Boolean).join(": ");
  return said || t("simple.starting");
}
