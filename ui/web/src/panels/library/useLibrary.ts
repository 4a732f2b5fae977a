import { useEffect, useState } from "react";
import { host, sentence } from "../../host";
import { useLive } from "../../store/live";
import { toast } from "../../store/page";
import type { DraftEntry, Workflow } from "../../types";
import { lateDeletes, usePending } from "./lateDeletes";

/** Before a search is sent, in case that more is typed. */
const TYPING_MS = 200;
const NONE: ReadonlySet<string> = new Set();

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

/** The ids of the workflows that the server finds, which knows whole descriptions; none until it has answered. */
export function useMatching(search: string): ReadonlySet<string> {
  const words = search.trim();
  const [ids, setIds] = useState<ReadonlySet<string>>(NONE);
  useEffect(() => {
    setIds(NONE);
    if (!words) return;
    let isCurrent = true;
    const ask = () =>
      host.workflows(words).then(
        (rows) => isCurrent && setIds(new Set(rows.map((row) => row.id))),
        (cause: unknown) => isCurrent && toast({ kind: "error", text: sentence(cause) }),
      );
    const timer = setTimeout(() => void ask(), TYPING_MS);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [words]);
  return ids;
}
