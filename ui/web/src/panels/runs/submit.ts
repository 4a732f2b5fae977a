/** Asking the server for a run: what it only reckons may be passed, and what it leaves out of a sweep is told. */

import { ApiError, host } from "../../host";
import { plural, t } from "../../i18n";
import { confirm, toast } from "../../store/page";
import type { Problem, RunRequest, Submitted } from "../../types";
import { worded } from "../../worded";

/** Rejects with an `ApiError` for what cannot run, and for what people did not want to run all the same. */
export async function submit(asked: RunRequest): Promise<Submitted> {
  const sent = await host.submit(asked).catch(async (error: unknown) => {
    const problems = error instanceof ApiError ? error.problems : [];
    if (!areReckoned(problems) || !(await confirm(question(problems), t("panels.run_anyway")))) throw error;
    return host.submit({ ...asked, force: true });
  });
  if (sent.num_left_out > 0) tellLeftOut(sent);
  if (sent.shared_out) toast({ kind: "info", text: sent.shared_out });
  return sent;
}

/** Whether nothing but what was reckoned keeps it from running. */
export function areReckoned(problems: readonly Problem[]): boolean {
  return problems.length > 0 && problems.every(({ kind }) => kind === "estimate");
}

function question(problems: readonly Problem[]): string {
  return [...new Set(problems.map(({ message }) => worded(message))), t("panels.run_anyway_text")].join("\n");
}

function tellLeftOut({ left_out, num_left_out: count, runs }: Submitted): void {
  const why = worded(left_out[0]?.problems[0]?.message ?? "");
  toast({ kind: "error", text: t(`panels.left_out_${plural(count)}`, { count, of: count + runs.length, why }) });
}
