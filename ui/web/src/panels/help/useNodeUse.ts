import { useEffect, useState } from "react";
import { host, sentence } from "../../host";
import type { NodeUse } from "../../types";

interface Asked {
  /** null until it is known. */
  use: NodeUse | null;
  error: string;
}

/** Where a node can be seen at work; of "" nothing is asked. */
export function useNodeUse(type: string): Asked {
  const [asked, setAsked] = useState<Asked>({ use: null, error: "" });
  useEffect(() => {
    let isCurrent = true;
    const answer = (next: Asked) => isCurrent && setAsked(next);
    if (type) {
      host.nodeUse(type).then(
        (use) => answer({ use, error: "" }),
        (cause: unknown) => answer({ use: null, error: sentence(cause) }),
      );
    }
    return () => {
      isCurrent = false;
    };
  }, [type]);
  return asked;
}
