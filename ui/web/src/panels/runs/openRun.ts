/** A run of the list, to be looked at. */

import { has } from "../../graph/record";
import { topOf } from "../../graph/subs";
import { host } from "../../host";
import { t } from "../../i18n";
import { rememberRan } from "../../store/changedSinceRun";
import { goToTabOf } from "../../store/drafts";
import { editorStore } from "../../store/editor";
import { isOver, watchRun } from "../../store/live";
import { openGraph } from "../../store/page";
import type { Run } from "../../types";
import { said } from "../files/fileActions";

/** Open the workflow of a run, as that run had it, with what the run did on it. */
export async function openRun(run: Run): Promise<void> {
  await said(async () => {
    const { graph } = await host.run(run.id);
    if (!graph) throw new Error(t("gallery.no_graph"));
    openGraph(graph, run.name, null);
    rememberRan(run.id, editorStore.getState().whole);
    watchRun(run.id);
  });
}

/** Show what a run does on the canvas; that of another workflow is opened first. */
export async function watch(run: Run): Promise<void> {
  if (await goToTabOf(run.id)) return;
  const { whole: graph } = editorStore.getState();
  const names = Object.keys(run.nodes);
  const isOfThis = names.every((name) => has(graph.nodes, topOf(name))) && (names.length > 0 || !isOver(run.state));
  if (isOfThis) watchRun(run.id);
  else await openRun(run);
}
