/** Toasts about runs: of one workflow only the newest stays, and what failed stays until the next run of it. */

import { t } from "../i18n";
import type { Run } from "../types";
import { isOver } from "./liveState";
import { notify } from "./notify";
import { dismissAbout, toast, type Toast } from "./page";
import { worded } from "../worded";

/** What toasts about the runs of a workflow are about. */
export function aboutRuns({ workflow_id, name }: Pick<Run, "workflow_id" | "name">): string {
  return `runs of ${workflow_id ?? name}`;
}

/** A run was put into the queue: what was said of the one before is over. */
export function announceNew(run: Run): void {
  dismissAbout(aboutRuns(run));
}

/** A run ended: a failure is told at once, what a batch made when all of it is over. */
export function announce(run: Run, runs: Readonly<Record<string, Run>>): void {
  const { id, name, error } = run;
  const about = aboutRuns(run);
  const failure = { kind: "error", run: id, about, isLasting: true } as const;
  if (run.state === "failed") tell({ ...failure, text: t("frame.run_failed", { name, error: worded(error) }) });
  if (run.state === "cancelled") toast({ kind: "info", text: t("frame.run_cancelled", { name }) });
  const batch = Object.values(runs).filter((other) => other.batch === run.batch);
  const done = batch.filter((other) => other.state === "done");
  const failed = batch.filter((other) => other.state === "failed");
  if (done.length === 0 || !batch.every((other) => isOver(other.state))) return;
  if (failed.length > 0) tell({ ...failure, text: mixed(name, done, failed), run: failed[0]?.id ?? id });
  else if (run.state === "done") tell({ kind: "success", text: made(name, done.length), run: id, about });
}

/** In the page, and by the browser where nobody sees the page. */
function tell(shown: Omit<Toast, "id">): void {
  toast(shown);
  notify(shown.text, shown.about ?? "");
}

function made(name: string, count: number): string {
  return count > 1 ? t("frame.batch_done", { name, count }) : t("frame.run_done", { name });
}

/** A success beside it does not hide a failure. */
function mixed(name: string, done: readonly Run[], failed: readonly Run[]): string {
  const counts = { done: done.length, failed: failed.length };
  return t("frame.batch_mixed", { name, ...counts, error: worded(failed[0]?.error ?? "") });
}
