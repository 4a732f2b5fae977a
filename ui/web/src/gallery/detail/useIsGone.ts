import { useEffect, useState } from "react";
import { ApiError, host } from "../../host";
import { useResultsRevision } from "../useResultsRevision";

/** Whether a result that is looked at was deleted meanwhile, here or elsewhere. */
export function useIsGone(id: string): boolean {
  const revision = useResultsRevision();
  const [gone, setGone] = useState("");
  useEffect(() => {
    host.result(id).catch((error: unknown) => {
      if (error instanceof ApiError && error.status === 404) setGone(id);
    });
  }, [id, revision]);
  return gone === id;
}
