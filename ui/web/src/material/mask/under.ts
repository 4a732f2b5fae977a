/** Which picture a mask lies over: found by following the wires from the mask to where both meet. */

import { specOf } from "../../graph/catalog";
import { nodeAt } from "../../graph/edits/params";
import { own } from "../../graph/record";
import { isLink, plainValue, splitTarget } from "../../graph/values";
import type { Catalog, EditorGraph } from "../../types";
import { channelOf, type Channel } from "./channel";

export interface Under {
  /** The path of the picture; "" where the workflow has none. */
  picture: string;
  /** The channel that the mask is read from. */
  channel: Channel;
}

/** `place` is "node.socket" of the mask's path, or "$name" of the param that sets it. */
export function underMask(graph: EditorGraph, catalog: Catalog, place: string): Under {
  const node = nodeAt(graph, place);
  const inputs = own(graph.nodes, node)?.inputs ?? {};
  return {
    picture: pictureBeside(graph, catalog, node),
    channel: channelOf(plainValue(graph, own(inputs, "channel"))),
  };
}

/** The picture that feeds a node, itself apart, the nearest first. */
export function pictureBehind(graph: EditorGraph, catalog: Catalog, node: string): string {
  for (const name of behind(graph, node)) {
    const found = name !== node && pictureAt(graph, catalog, name);
    if (found) return found;
  }
  return "";
}

/** Of the nodes that the mask reaches, the first that a picture reaches as well. */
function pictureBeside(graph: EditorGraph, catalog: Catalog, mask: string): string {
  const own = new Set(behind(graph, mask));
  for (const reached of ahead(graph, mask)) {
    for (const name of behind(graph, reached)) {
      const found = !own.has(name) && pictureAt(graph, catalog, name);
      if (found) return found;
    }
  }
  return "";
}

function pictureAt(graph: EditorGraph, catalog: Catalog, name: string): string {
  const node = own(graph.nodes, name);
  const spec = node && specOf(catalog, node.type);
  const input = spec?.inputs.find(({ widget }) => widget === "picture");
  const value = node && input ? plainValue(graph, own(node.inputs, input.name)) : undefined;
  return typeof value === "string" ? value : "";
}

/** A node and all that feeds it, the nearest first. */
function behind(graph: EditorGraph, node: string): string[] {
  return walk(node, (name) =>
    Object.values(own(graph.nodes, name)?.inputs ?? {}).flatMap((value) =>
      isLink(value) ? [splitTarget(value.from)[0]] : [],
    ),
  );
}

/** A node and all that it feeds, the nearest first. */
function ahead(graph: EditorGraph, node: string): string[] {
  const fed = new Map<string, string[]>();
  for (const [name, { inputs }] of Object.entries(graph.nodes)) {
    for (const value of Object.values(inputs)) {
      if (!isLink(value)) continue;
      const [from] = splitTarget(value.from);
      fed.set(from, [...(fed.get(from) ?? []), name]);
    }
  }
  return walk(node, (name) => fed.get(name) ?? []);
}

function walk(start: string, next: (name: string) => string[]): string[] {
  const seen = new Set([start]);
  for (const name of seen) for (const each of next(name)) seen.add(each);
  return [...seen];
}
