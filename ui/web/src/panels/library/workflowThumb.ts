/** The picture of a saved workflow: the newest result of a run of it. */

import { host, urls } from "../../host";
import { liveStore } from "../../store/live";
import type { Run } from "../../types";

/** Make the newest result the workflow's picture; nothing happens where there is none. */
export async function keepThumb(workflow: string): Promise<void> {
  const result = newestResult(workflow);
  if (!result) return;
  try {
    const response = await fetch(urls.thumb(result), { credentials: "same-origin" });
    if (response.ok) await host.putThumb(workflow, await response.blob());
  } catch {
    // A picture is decoration: the workflow itself is saved.
  }
}

function newestResult(workflow: string): string | null {
  const { runs, watched } = liveStore.getState();
  const shown = watched ? runs[watched] : undefined;
  const own = Object.values(runs).filter((run) => run.workflow_id === workflow);
  own.sort((a, b) => (b.ended ?? 0) - (a.ended ?? 0));
  for (const run of shown ? [shown, ...own] : own) {
    const file = resultsOf(run).at(-1);
    if (file) return file;
  }
  return null;
}

/** Ids of what a run made, in the order of its nodes. */
export function resultsOf(run: Run): string[] {
  return Object.values(run.nodes).flatMap((node) => node.files);
}
