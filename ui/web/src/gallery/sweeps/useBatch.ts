import { useEffect, useState } from "react";
import { host, sentence } from "../../host";
import type { Result } from "../../types";
import { useResultsRevision } from "../useResultsRevision";

const PAGE = 200;

/** All results of one batch, kept up to date. */
export function useBatch(batch: string): { results: Result[]; problem: string } {
  const revision = useResultsRevision();
  const [answer, setAnswer] = useState<{ results: Result[]; problem: string }>({ results: [], problem: "" });
  useEffect(() => {
    let isWanted = true;
    allOf(batch).then(
      (results) => isWanted && setAnswer({ results, problem: "" }),
      (error: unknown) => isWanted && setAnswer((before) => ({ ...before, problem: sentence(error) })),
    );
    return () => {
      isWanted = false;
    };
  }, [batch, revision]);
  return answer;
}

async function allOf(batch: string): Promise<Result[]> {
  const results: Result[] = [];
  for (;;) {
    const page = await host.results({ batch, limit: PAGE, before: results.at(-1)?.id });
    results.push(...page);
    if (page.length < PAGE) return results;
  }
}
