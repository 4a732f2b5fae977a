import { useEffect, useState } from "react";
import { host, sentence } from "../host";
import type { GraphFile } from "../types";
import type { Choice } from "./useChoices";

interface Opened {
  /** Of the choice and its version: another key, another form. */
  key: string;
  graph: GraphFile | null;
  error: string;
}

/** The graph of what is chosen; a workflow of the library is read anew when it was saved. */
export function useOpened(choice: Choice | null): Opened {
  const [fetched, setFetched] = useState<Opened>({ key: "", graph: null, error: "" });
  const workflow = choice?.workflow ?? null;
  const key = choice ? `${choice.key} ${workflow?.version ?? ""}` : "";
  useEffect(() => {
    if (!workflow) return;
    let isWanted = true;
    host.workflow(workflow.id).then(
      ({ graph }) => isWanted && setFetched({ key, graph, error: "" }),
      (reason) => isWanted && setFetched({ key, graph: null, error: sentence(reason) }),
    );
    return () => {
      isWanted = false;
    };
  }, [key, workflow]);
  if (choice?.canvas) {
    const { canvas } = choice;
    return { key: `${choice.key} ${JSON.stringify(canvas.params ?? {})}`, graph: canvas, error: "" };
  }
  if (choice?.template) return { key, graph: choice.template.graph, error: "" };
  return fetched.key === key ? fetched : { key, graph: null, error: "" };
}
