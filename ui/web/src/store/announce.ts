/** Toasts about runs that ended: one for a whole batch, and one for each run that failed. */

import { t } from "../i18n";
import type { Run } from "../types";
import { isOver } from "./live_state";
import { toast } from "./page";

export function announce(run: Run, runs: Readonly<Record<string, Run>>): void {
  const { id, name, error } = run;
  if (run.state === "failed") toast({ kind: "error", text: t("frame.run_failed", { name, error }), run: id });
  if (run.state === "cancelled") toast({ kind: "info", text: t("frame.run_cancelled", { name }) });
  if (run.state !== "done") return;
  const batch = Object.values(runs).filter((other) => other.batch === run.batch);
  if (!batch.every((other) => isOver(other.state))) return;
  const count = batch.filter((other) => other.state === "done").length;
  const text = count > 1 ? t("frame.batch_done", { name, count }) : t("frame.run_done", { name });
  toast({ kind: "success", text, run: id });
}
