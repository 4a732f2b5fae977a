/** A part of the workflow as text for somewhere else: a script in Python, a command, a file. */

import { textExact } from "../../exact";
import { shellCommand } from "../../graph/file/command";
import { clipFile, copy } from "../../graph/file/clip";
import { putText } from "../../graph/file/clipboard";
import { toFile } from "../../graph/file/workflowFile";
import { itemKey } from "../../graph/items";
import { host, sentence } from "../../host";
import { t } from "../../i18n";
import { editorStore } from "../../store/editor";
import { openDialog, toast } from "../../store/page";
import type { EditorGraph } from "../../types";

export type Form = "python" | "command" | "json";

/** What the dialog is opened with that shows a text which the browser would not copy. */
export interface ToCopy {
  form: Form;
  text: string;
}

/** Copy some nodes; a script has with them all that they need. */
export async function copyAs(form: Form, names: readonly string[]): Promise<void> {
  try {
    const text = await textOf(form, editorStore.getState().graph, names);
    if (await putText(text)) toast({ kind: "success", text: t(`canvas.copied_as_${form}`) });
    else openDialog("text", { form, text } satisfies ToCopy);
  } catch (error) {
    toast({ kind: "error", text: sentence(error) });
  }
}

async function textOf(form: Form, graph: EditorGraph, names: readonly string[]): Promise<string> {
  const isAll = Object.keys(graph.nodes).every((name) => names.includes(name));
  if (form === "command") return shellCommand(graph, names);
  if (form === "python") return (await host.exportPython(toFile(graph), isAll ? null : names)).text;
  if (isAll) return `${textExact(toFile(graph), 2)}\n`;
  const clip = copy(
    graph,
    names.map((name) => itemKey("node", name)),
  );
  return clip ? clipFile(clip) : "";
}
