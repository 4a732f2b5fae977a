/** Starting, cancelling and ordering runs; what went wrong is said in the page. */

import { showWhenMade } from "../../canvas/flow/resultInView";
import { withInsides } from "../../graph/inside";
import { toFile } from "../../graph/file/workflowFile";
import { ApiError, host, sentence } from "../../host";
import { plural, t } from "../../i18n";
import { aboutRuns } from "../../store/announce";
import { isAsItRan, rememberRan } from "../../store/changedSinceRun";
import { editWhole, editorStore, setProblems } from "../../store/editor";
import { isOver, liveStore } from "../../store/live";
import { confirm, dismissAbout, toast } from "../../store/page";
import { watchRunIn } from "../../store/tabs";
import type { EditorGraph, Priority, Run, RunRequest } from "../../types";
import { withNewSeeds, withSeedsThrown } from "../../widgets/numbers/seeds";
import { panelStore, setNextPlan, showTab } from "../panelState";
import { submit } from "./submit";
import { countSweep, seedOf } from "./workflowSeed";

interface Asked extends Pick<RunRequest, "targets" | "sweep" | "force"> {
  /** So many pictures: the workflow's seed counts up. */
  count?: number;
  /** Also where nothing has changed since the run that the canvas shows. */
  isRepeated?: boolean;
}

/** Run the whole workflow, or a part of it, or many of it. Resolves to whether it was queued. */
export async function run({ targets, sweep, force, count = 1, isRepeated }: Asked = {}): Promise<boolean> {
  if (Object.keys(editorStore.getState().whole.nodes).length === 0) return refuse(t("panels.nothing_to_run"));
  editWhole(t("panels.edit_seeds"), (whole) => withInsides(withNewSeeds(whole), withNewSeeds));
  const { whole: graph, catalog, workflow, draftKey } = editorStore.getState();
  const isPlain = !targets && !sweep && !isRepeated && count === 1 && !panelStore.getState().nextPlan;
  if (isPlain && (await isMadeAlready(graph))) return tellUnchanged(graph);
  const seed = count > 1 ? seedOf(graph, catalog) : null;
  if (count > 1 && !seed) return refuse(t("panels.no_seed"));
  try {
    const { runs } = await submit({
      graph: toFile(graph),
      workflow_id: workflow?.id ?? null,
      targets,
      sweep: seed ? [countSweep(seed, count)] : sweep,
      force,
      ...panelStore.getState().nextPlan,
    });
    setNextPlan(null);
    if (!targets) setProblems(editorStore.getState().problems.filter(({ kind }) => kind !== "error"));
    dismissAbout(aboutRuns({ workflow_id: workflow?.id ?? null, name: graph.name }), runs); // which may be over by now
    if (runs[0]) rememberRan(runs[0], graph);
    watchRunIn(draftKey, runs[0] ?? null);
    if (runs[0]) showWhenMade(runs[0]);
    if (runs.length > 1) toast({ kind: "info", text: t("panels.queued", { count: runs.length }) });
    return true;
  } catch (error) {
    return refuse(sentence(error), error);
  }
}

/** Whether the run that the canvas shows made of this workflow what it makes, and it is still there. */
async function isMadeAlready(graph: EditorGraph): Promise<boolean> {
  const { watched, runs } = liveStore.getState();
  const shown = watched ? runs[watched] : undefined;
  if (shown?.state !== "done" || !shown.newest_result) return false;
  return isAsItRan(shown, graph).catch(() => false); // the run is asked for, and tells what is wrong
}

/** Nothing is run: the pictures stay, and no file is made twice. */
function tellUnchanged(graph: EditorGraph): false {
  const { catalog, workflow } = editorStore.getState();
  const thrown = (each: EditorGraph): EditorGraph => withSeedsThrown(each, catalog);
  const runWithNew = () => {
    editWhole(t("panels.edit_seeds"), (whole) => withInsides(thrown(whole), thrown));
    void run();
  };
  const anyway = { label: t("panels.run_anyway"), act: () => void run({ isRepeated: true }) };
  const withNew = { label: t("panels.new_seed"), act: runWithNew };
  toast({
    kind: "info",
    text: t("panels.unchanged"),
    about: aboutRuns({ workflow_id: workflow?.id ?? null, name: graph.name }),
    actions: seedOf(graph, catalog) ? [withNew, anyway] : [anyway],
  });
  return false;
}

/** Run what these nodes of the canvas need, and no more. */
export function runTo(...nodes: string[]): Promise<boolean> {
  const { inside } = editorStore.getState();
  return run({ targets: nodes.map((node) => [...inside, node].join("/")) });
}

/** Each such as "seed=1..4". */
export function runSweep(sweep: string[]): Promise<boolean> {
  return run({ sweep });
}

/** Cancel a run; without one, the run on the canvas, else the first of ours that runs. */
export async function cancel(id: string | null = currentRun()): Promise<void> {
  if (id) await quietly(host.cancelRun(id));
}

export async function cancelAll(): Promise<void> {
  await quietly(host.cancelRuns(null));
}

/** Those of them that are not over by then. */
export async function cancelRuns(ids: readonly string[]): Promise<void> {
  await quietly(host.cancelRuns(ids));
}

/** Let waiting runs go before or behind the others of ours, or once the machine is idle. */
export async function prioritize(ids: readonly string[], priority: Priority): Promise<void> {
  await quietly(host.prioritize(ids, priority));
}

/** Move a waiting run in front of another of ours; null is the end. */
export async function move(id: string, before: string | null): Promise<void> {
  await quietly(host.moveRun(id, before));
}

/** Ask, then delete runs that are over, with the files that they made. */
export async function removeRuns(runs: readonly Run[]): Promise<void> {
  const values = { name: runs[0]?.name ?? "", count: runs.length };
  if (!(await confirm(t(`panels.confirm_remove_${plural(runs.length)}`, values)))) return;
  for (const { id } of runs) await quietly(host.deleteRun(id));
}

export function runCount(count: number): string {
  return t(`panels.runs_${plural(count)}`, { count });
}

/** The run that Cancel means. */
export function currentRun(): string | null {
  const { runs, queue, watched } = liveStore.getState();
  const shown = watched ? runs[watched] : undefined;
  if (shown && !isOver(shown.state)) return shown.id;
  return queue.find((entry) => entry.is_mine && entry.id)?.id ?? null;
}

async function quietly(request: Promise<unknown>): Promise<void> {
  try {
    await request;
  } catch (error) {
    toast({ kind: "error", text: sentence(error) });
  }
}

function refuse(text: string, error?: unknown): false {
  const { whole: graph, workflow } = editorStore.getState();
  const about = aboutRuns({ workflow_id: workflow?.id ?? null, name: graph.name });
  if (error instanceof ApiError && error.problems.length > 0) {
    setProblems(error.problems);
    showTab("problems");
    const count = error.problems.length;
    toast({ kind: "error", text: t(`panels.refused_${plural(count)}`, { count }), about });
  } else toast({ kind: "error", text, about });
  return false;
}
