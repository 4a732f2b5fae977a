/** What is done with results: delete, download, open their workflow. Each says in the page how it went. */
import { ApiError, host, sentence, urls } from "../host";
import { plural, t } from "../i18n";
import { openUnsaved } from "../panels/files/fileActions";
import { download } from "../parts/download";
import { confirm, go, toast } from "../store/page";
import type { MarkBody, Result } from "../types";
import { gallery } from "./galleryState";
import { runRecord } from "./useRunRecord";

const BETWEEN_DOWNLOADS_MS = 250;
const MOST_NEIGHBOURS = 200;

/** Show a result over the view that is open, with its run's others beside it. */
export async function openResult(id: string): Promise<void> {
  const { show } = gallery.getState();
  try {
    const result = await host.result(id);
    show({ view: "detail", result, among: [result] });
    const batch = await host.results({ batch: result.batch, limit: MOST_NEIGHBOURS });
    const among = batch.filter(({ run }) => run === result.run);
    const front = gallery.getState().opened.at(-1);
    if (front?.view === "detail" && front.result.id === id && among.length > 1) show({ ...front, among });
  } catch (error) {
    const isGone = error instanceof ApiError && error.status === 404;
    toast({ kind: "error", text: isGone ? t("gallery.gone") : sentence(error) });
  }
}

/** Change stars, tags and boards, and show it everywhere; false where that failed. */
export async function mark(results: readonly Result[], change: Omit<MarkBody, "ids">): Promise<boolean> {
  const [first, ...others] = results.map(({ id }) => id);
  if (first === undefined) return false;
  try {
    gallery.getState().renew(await host.mark({ ids: [first, ...others], ...change }));
    return true;
  } catch (error) {
    toast({ kind: "error", text: sentence(error) });
    return false;
  }
}

/** Ask, then delete; false if the user kept them or one could not be deleted. */
export async function deleteResults(ids: readonly string[]): Promise<boolean> {
  const count = ids.length;
  if (!(await confirm(t(`gallery.confirm_delete_${plural(count)}`, { count })))) return false;
  const gone: string[] = [];
  try {
    for (const id of ids) {
      await host.deleteResult(id);
      gone.push(id);
    }
    toast({ kind: "success", text: t(`gallery.deleted_${plural(count)}`, { count }) });
    return true;
  } catch (error) {
    toast({ kind: "error", text: sentence(error) });
    return false;
  } finally {
    gallery.getState().drop(gone);
  }
}

/** One after another: browsers drop downloads that start at the same moment. */
export async function downloadAll(results: readonly Result[]): Promise<void> {
  for (const result of results) {
    download(urls.download(result.id), result.name);
    await new Promise((resolve) => setTimeout(resolve, BETWEEN_DOWNLOADS_MS));
  }
}

/** Open the workflow as this result's run had it, in Build. */
export async function openMaker(result: Result): Promise<void> {
  try {
    const run = await runRecord(result.run);
    if (!run.graph) throw new Error(t("gallery.no_graph"));
    gallery.getState().close(true);
    go("build"); // what is not saved there is asked about there
    await openUnsaved(run.graph, result.workflow_name);
  } catch (error) {
    toast({ kind: "error", text: sentence(error) });
  }
}
