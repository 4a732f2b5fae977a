import { useEffect, useMemo, useState } from "react";
import { host } from "../host";
import type { GraphFile, Json, Meant } from "../types";
import { fedBy, withDefaults, type FormValues } from "./formFields";

const DELAY_MS = 400;

/** What values of a form that stand for something else will be in a run, by param; asked anew after a change. */
export function useMeant(graph: GraphFile, values: FormValues): Readonly<Record<string, Json>> {
  const [meant, setMeant] = useState<Meant>({});
  useEffect(() => {
    const abort = new AbortController();
    const timer = setTimeout(() => {
      host.check(withDefaults(graph, values), abort.signal, "form").then(
        (answer) => setMeant(answer.values),
        () => undefined, // a form works without
      );
    }, DELAY_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [graph, values]);
  return useMemo(() => byParam(graph, meant), [graph, meant]);
}

function byParam(graph: GraphFile, meant: Meant): Record<string, Json> {
  const found: Record<string, Json> = {};
  for (const [param, { node, socket }] of fedBy(graph)) {
    const value = Object.hasOwn(meant, node) ? meant[node]?.[socket] : undefined;
    if (value !== undefined) found[param] = value;
  }
  return found;
}
