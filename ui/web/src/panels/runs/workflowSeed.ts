/** The seed of a workflow: what a run of several pictures counts up. */

import { wholeOf } from "../../exact";
import { specOf } from "../../graph/catalog";
import { own } from "../../graph/record";
import { isLink, isParamRef, plainValue } from "../../graph/values";
import type { Catalog, EditorGraph } from "../../types";

export interface Seed {
  /** A param, or "node.socket": what a sweep names. */
  name: string;
  value: bigint;
}

/** The first seed that people set, a param before a node's own; null where the workflow has none. */
export function seedOf(graph: EditorGraph, catalog: Catalog): Seed | null {
  const found: Seed[] = [];
  for (const [name, node] of Object.entries(graph.nodes)) {
    for (const spec of specOf(catalog, node.type)?.inputs ?? []) {
      const value = own(node.inputs, spec.name);
      if (spec.widget !== "seed" || isLink(value)) continue;
      const seed = wholeOf(plainValue(graph, value) ?? spec.default);
      if (isParamRef(value)) return { name: value.param, value: seed };
      found.push({ name: `${name}.${spec.name}`, value: seed });
    }
  }
  return found[0] ?? null;
}

/** The sweep of a number of pictures, such as "seed=7..10". */
export function countSweep(seed: Seed, count: number): string {
  return `${seed.name}=${seed.value}..${seed.value + BigInt(count - 1)}`;
}
