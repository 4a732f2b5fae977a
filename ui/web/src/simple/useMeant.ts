import { useEffect, useMemo, useState } from "react";
import { host } from "../host";
import type { Checked, Count, GraphFile, Json, Meant, Sizes, Tokens } from "../types";
import { fedBy, withDefaults, type FormValues } from "./formFields";

/** After the last change, before it is asked. */
export const DELAY_MS = 400;

/** What is known of a form's values before a run, by param. */
export interface MeantOfForm {
  /** What values that stand for something else will be. */
  meant: Readonly<Record<string, Json>>;
  /** What text encoders make of texts. */
  tokens: Readonly<Record<string, readonly Count[]>>;
  /** Of each param that is a picture's height: the one that is its width, and which sizes are painted. */
  shapes: Readonly<Record<string, Shape>>;
}

export interface Shape {
  width: string;
  sizes: Sizes;
}

/** Asked anew after a change. */
export function useMeant(graph: GraphFile, values: FormValues): MeantOfForm {
  const [meant, setMeant] = useState<Meant>({});
  const [sizes, setSizes] = useState<Checked["sizes"]>({});
  const [tokens, setTokens] = useState<Tokens["tokens"]>({});
  useEffect(() => {
    const abort = new AbortController();
    const timer = setTimeout(() => {
      const asked = withDefaults(graph, values);
      const nothing = () => undefined; // a form works without
      host.check(asked, abort.signal, "form").then((answer) => {
        setMeant(answer.values);
        setSizes(answer.sizes);
      }, nothing);
      host.tokens(asked, abort.signal, "form").then((answer) => setTokens(answer.tokens), nothing);
    }, DELAY_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [graph, values]);
  return useMemo(
    () => ({ meant: byParam(graph, meant), tokens: byParam(graph, tokens), shapes: shapesOf(graph, sizes) }),
    [graph, meant, tokens, sizes],
  );
}

function shapesOf(graph: GraphFile, sizes: Checked["sizes"]): Record<string, Shape> {
  const fed = [...fedBy(graph)];
  const found: Record<string, Shape> = {};
  for (const [param, { node, socket }] of fed) {
    const width = fed.find(([, at]) => at.node === node && at.socket === "width")?.[0];
    const known = Object.hasOwn(sizes, node) ? sizes[node] : undefined;
    if (socket === "height" && width !== undefined && known) found[param] = { width, sizes: known };
  }
  return found;
}

function byParam<T>(graph: GraphFile, told: Readonly<Record<string, Readonly<Record<string, T>>>>): Record<string, T> {
  const found: Record<string, T> = {};
  for (const [param, { node, socket }] of fedBy(graph)) {
    const value = Object.hasOwn(told, node) ? told[node]?.[socket] : undefined;
    if (value !== undefined) found[param] = value;
  }
  return found;
}
