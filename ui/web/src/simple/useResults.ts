import { useEffect, useState } from "react";
import { host, sentence } from "../host";
import { useLive } from "../store/live";
import type { Result, Run } from "../types";

const NONE: readonly Result[] = [];
const MAX_RESULTS = 200;

interface Results {
  results: readonly Result[];
  error: string;
  /** False until the server has answered. */
  isRead: boolean;
}

/** Asks for what a run made, first to last. */
export type ReadResults = (run: Run) => Promise<readonly Result[]>;

/** What a run made so far, in the order in which it was made. */
export function useResults(run: Run | null, read: ReadResults = resultsOf): Results {
  const revision = useLive((state) => state.results);
  const [found, setFound] = useState({ run: "", results: NONE, error: "" });
  const id = run?.id ?? "";
  const state = run?.state;
  useEffect(() => {
    if (!run || state === "waiting") return;
    let isWanted = true;
    read(run).then(
      (results) => isWanted && setFound({ run: id, results, error: "" }),
      (error) => isWanted && setFound({ run: id, results: NONE, error: sentence(error) }),
    );
    return () => {
      isWanted = false;
    };
  }, [id, state, revision, read]);
  return found.run === id ? { ...found, isRead: true } : { results: NONE, error: "", isRead: false };
}

async function resultsOf({ id, batch }: Run): Promise<Result[]> {
  const all = await host.results({ batch, limit: MAX_RESULTS });
  return all.filter((result) => result.run === id).reverse();
}
