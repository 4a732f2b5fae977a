/** What a sweep can vary: the params of a workflow, and the inputs of its nodes that hold plain values. */

import { nodeSpec, titleOf } from "../../graph/catalog";
import { canExpose } from "../../graph/edits/params";
import { own } from "../../graph/record";
import { isLink, isParamRef, plainValue } from "../../graph/values";
import type { Catalog, EditorGraph, Json } from "../../types";

export interface Sweepable {
  /** A param's name, or "node.socket". */
  name: string;
  label: string;
  type: string;
  value: Json;
  choices: readonly string[];
}

export function sweepables(graph: EditorGraph, catalog: Catalog): Sweepable[] {
  const params = Object.entries(graph.params).map(
    ([name, param]): Sweepable => ({
      name,
      label: name,
      type: param.type,
      value: param.default ?? "",
      choices: param.choices ?? [],
    }),
  );
  const inputs = Object.entries(graph.nodes).flatMap(([node, { inputs: held }]) =>
    (nodeSpec(graph, catalog, node)?.inputs ?? [])
      .filter((spec) => canExpose(spec) && !isLink(own(held, spec.name)) && !isParamRef(own(held, spec.name)))
      .map(
        (spec): Sweepable => ({
          name: `${node}.${spec.name}`,
          label: `${titleOf(graph, catalog, node)}: ${spec.name}`,
          type: spec.type,
          value: plainValue(graph, own(held, spec.name)) ?? spec.default ?? "",
          choices: spec.choices,
        }),
      ),
  );
  return [...params, ...inputs];
}
