/** Folders of the library: only those that workflows are in. */

import type { Workflow } from "../../types";

export function foldersOf(workflows: readonly Workflow[]): string[] {
  return [...new Set(workflows.map((workflow) => workflow.folder))].filter((folder) => folder !== "").sort();
}

/** Workflows of a folder (null: of all) whose name and summary have every word, or that the server found (`ids`) by all
 * of their description, newest first. */
export function found(
  workflows: readonly Workflow[],
  folder: string | null,
  search: string,
  ids: ReadonlySet<string> = new Set(),
): Workflow[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  return workflows
    .filter((workflow) => folder === null || workflow.folder === folder)
    .filter(
      ({ id, name, summary }) =>
        ids.has(id) || words.every((word) => `${name} ${summary}`.toLowerCase().includes(word)),
    )
    .sort((a, b) => b.updated - a.updated);
}
