/** What several nodes have in common: the inputs to edit together, and the values where they agree. */

import { nodeSpec } from "../../graph/catalog";
import { own } from "../../graph/record";
import { isLink, isParamRef, plainValue } from "../../graph/values";
import type { Catalog, EditorGraph, InputSpec, Json } from "../../types";

export interface CommonInput {
  spec: InputSpec;
  /** undefined where the nodes differ. */
  value: Json | undefined;
  isMixed: boolean;
  /** The node whose input a wire feeds, by "node.socket" of the source; "" where none is linked. */
  from: string;
  /** The param that sets it; "" where none does. */
  param: string;
}

/** The inputs that all nodes have with the same type. */
export function commonInputs(graph: EditorGraph, catalog: Catalog, names: readonly string[]): CommonInput[] {
  const specs = names.map((name) => nodeSpec(graph, catalog, name)?.inputs ?? []);
  const [first = [], ...rest] = specs;
  const shared = first.filter((input) => rest.every((inputs) => inputs.some((other) => isSame(input, other))));
  return shared.map((spec) => commonInput(graph, spec, names));
}

function isSame(a: InputSpec, b: InputSpec): boolean {
  return a.name === b.name && a.type === b.type && a.widget === b.widget && a.choices.join() === b.choices.join();
}

function commonInput(graph: EditorGraph, spec: InputSpec, names: readonly string[]): CommonInput {
  const inputs = names.map((name) => own(graph.nodes[name]?.inputs ?? {}, spec.name));
  const values = inputs.map((input) => plainValue(graph, input) ?? spec.default);
  const [first] = values;
  const isMixed = values.some((value) => JSON.stringify(value) !== JSON.stringify(first));
  const link = inputs.find(isLink);
  const ref = inputs.find(isParamRef);
  return { spec, value: isMixed ? undefined : first, isMixed, from: link?.from ?? "", param: ref?.param ?? "" };
}

/** The one value that all have; undefined where they differ. */
export function agreed<T>(values: readonly T[]): T | undefined {
  return values.every((value) => value === values[0]) ? values[0] : undefined;
}
