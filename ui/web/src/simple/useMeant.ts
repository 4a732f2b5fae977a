import { useEffect, useMemo, useState } from "react";
import { host } from "../host";
import type { Count, GraphFile, Json, Meant, Tokens } from "../types";
import { fedBy, withDefaults, type FormValues } from "./formFields";

const DELAY_MS = 400;

/** What is known of a form's values before a run, by param. */
export interface MeantOfForm {
  /** What values that stand for something else will be. */
  meant: Readonly<Record<string, Json>>;
  /** What text encoders make of texts. */
  tokens: Readonly<Record<string, readonly Count[]>>;
}

/** Asked anew after a change. */
export function useMeant(graph: GraphFile, values: FormValues): MeantOfForm {
  const [meant, setMeant] = useState<Meant>({});
  const [tokens, setTokens] = useState<Tokens["tokens"]>({});
  useEffect(() => {
    const abort = new AbortController();
    const timer = setTimeout(() => {
      const asked = withDefaults(graph, values);
      const nothing = () => undefined; // a form works without
      host.check(asked, abort.signal, "form").then((answer) => setMeant(answer.values), nothing);
      host.tokens(asked, abort.signal, "form").then((answer) => setTokens(answer.tokens), nothing);
    }, DELAY_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [graph, values]);
  return useMemo(() => ({ meant: byParam(graph, meant), tokens: byParam(graph, tokens) }), [graph, meant, tokens]);
}

function byParam<T>(graph: GraphFile, told: Readonly<Record<string, Readonly<Record<string, T>>>>): Record<string, T> {
  const found: Record<string, T> = {};
  for (const [param, { node, socket }] of fedBy(graph)) {
    const value = Object.hasOwn(told, node) ? told[node]?.[socket] : undefined;
    if (value !== undefined) found[param] = value;
  }
  return found;
}
