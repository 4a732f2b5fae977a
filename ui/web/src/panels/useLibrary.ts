import { useEffect, useState } from "react";
import { host, sentence } from "../host";
import { useLive } from "../store/live";
import type { DraftEntry, Workflow } from "../types";
import { lateDeletes, usePending } from "./lateDeletes";

interface LibraryList {
  /** null while they are read. */
  workflows: Workflow[] | null;
  drafts: DraftEntry[];
  error: string;
  reload: () => void;
}

/** The user's workflows and drafts, read anew when the server says that they changed; without those being deleted. */
export function useLibrary(): LibraryList {
  const revision = useLive((state) => state.library);
  const pending = usePending();
  const [turn, setTurn] = useState(0);
  const [workflows, setWorkflows] = useState<Workflow[] | null>(null);
  const [drafts, setDrafts] = useState<DraftEntry[]>([]);
  const [error, setError] = useState("");
  useEffect(() => {
    let isCurrent = true;
    Promise.all([host.workflows(), host.drafts()]).then(
      ([all, kept]) => {
        if (!isCurrent) return;
        setWorkflows(all);
        setDrafts(kept);
        setError("");
      },
      (cause: unknown) => isCurrent && setError(sentence(cause)),
    );
    return () => {
      isCurrent = false;
    };
  }, [revision, turn]);
  useEffect(() => () => void lateDeletes(), []);
  const kept = workflows?.filter((workflow) => !pending.has(workflow.id)) ?? null;
  return { workflows: kept, drafts, error, reload: () => setTurn((last) => last + 1) };
}
