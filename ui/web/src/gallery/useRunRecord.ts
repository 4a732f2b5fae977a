import { useEffect, useState } from "react";
import { host, sentence } from "../host";
import type { RunWithGraph } from "../types";

const kept = new Map<string, RunWithGraph>();
const MOST = 64;

/** The run that made a result, with its graph; asked for once, because a run that is over does not change. */
export function useRunRecord(id: string): { run: RunWithGraph | null; problem: string } {
  const [answer, setAnswer] = useState<{ id: string; run: RunWithGraph | null; problem: string }>();
  useEffect(() => {
    let isWanted = true;
    runRecord(id).then(
      (run) => isWanted && setAnswer({ id, run, problem: "" }),
      (error: unknown) => isWanted && setAnswer({ id, run: null, problem: sentence(error) }),
    );
    return () => {
      isWanted = false;
    };
  }, [id]);
  return answer?.id === id ? answer : { run: kept.get(id) ?? null, problem: "" };
}

export async function runRecord(id: string): Promise<RunWithGraph> {
  const known = kept.get(id);
  if (known) return known;
  const run: RunWithGraph = await host.run(id);
  if (run.ended !== null) {
    const oldest = kept.size >= MOST ? kept.keys().next().value : undefined;
    if (oldest !== undefined) kept.delete(oldest);
    kept.set(id, run);
  }
  return run;
}
