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

/** What a run made so far, in the order in which it was made. */
export function useResults(run: Run | null): Results {
  const revision = useLive((state) => state.results);
  const [found, setFound] = useState({ run: "", results: NONE, error: "" });
  const id = run?.id ?? "";
  const batch = run?.batch ?? "";
  const state = run?.state;
  useEffect(() => {
    if (!id || state === "waiting") return;
    let isWanted = true;
    host.results({ batch, limit: MAX_RESULTS }).then(
      (all) => {
        const results = all.filter((result) => result.run === id).reverse();
        if (isWanted) setFound({ run: id, results, error: "" });
      },
      (error) => isWanted && setFound({ run: id, results: NONE, error: sentence(error) }),
    );
    return () => {
      isWanted = false;
    };
  }, [id, batch, state, revision]);
  return found.run === id ? { ...found, isRead: true } : { results: NONE, error: "", isRead: false };
}
