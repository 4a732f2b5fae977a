/** Where values of a result, or of a foreign picture, go in the workflow on the canvas: found by the nodes' specs. */

import { nodeSpec, titleOf } from "../../graph/catalog";
import { pairsOf } from "../../graph/difference";
import { giveValue, setInput } from "../../graph/edits";
import { own } from "../../graph/record";
import { isLink, isParamRef, plainValue } from "../../graph/values";
import type { Catalog, EditorGraph, Json, NodeSpec } from "../../types";

/** What can be recalled. */
export interface Recalled {
  prompt?: string;
  negative_prompt?: string;
  /** Digits where JavaScript would round. */
  seed?: number | string;
  size?: { width: number; height: number };
}

export type RecallKind = keyof Recalled;

/** A place that takes one kind: the node, and what people call it. */
export interface Place {
  node: string;
  title: string;
  /** The inputs that are set there. */
  sockets: readonly string[];
}

const SOCKETS: Readonly<Record<RecallKind, readonly string[]>> = {
  prompt: ["prompt"],
  negative_prompt: ["negative_prompt"],
  seed: ["seed"],
  size: ["width", "height"],
};

/** The nodes whose inputs of that name are values that can be written; of prompts other long texts where none is. */
export function placesFor(graph: EditorGraph, catalog: Catalog, kind: RecallKind): Place[] {
  const found = Object.keys(graph.nodes).flatMap((node): Place[] => {
    const spec = nodeSpec(graph, catalog, node);
    const inputs = spec?.inputs ?? [];
    const free = (socket: string) =>
      inputs.some(
        (each) =>
          each.name === socket &&
          (kind !== "seed" || each.widget === "seed") &&
          !isLink(own(own(graph.nodes, node)?.inputs ?? {}, socket)),
      );
    const sockets = SOCKETS[kind];
    return sockets.every(free) && (kind !== "size" || isCanvas(spec))
      ? [{ node, title: titleOf(graph, catalog, node), sockets }]
      : [];
  });
  return found.length || kind !== "prompt" ? found : longTexts(graph, catalog);
}

/** A size that is painted, not one to which something is scaled or cut. */
function isCanvas(spec: NodeSpec | undefined): boolean {
  const takesPixels = spec?.inputs.some(({ type }) => ["Image", "Video", "Mask"].includes(type));
  return !takesPixels || spec?.outputs.some(({ type }) => type === "Latents") === true;
}

function longTexts(graph: EditorGraph, catalog: Catalog): Place[] {
  return Object.keys(graph.nodes).flatMap((node) => {
    const inputs = nodeSpec(graph, catalog, node)?.inputs ?? [];
    return inputs
      .filter(({ name, widget }) => widget === "multiline" && !name.includes("negative"))
      .filter(({ name }) => !isLink(own(own(graph.nodes, node)?.inputs ?? {}, name)))
      .slice(0, 1)
      .map(({ name }) => ({ node, title: titleOf(graph, catalog, node), sockets: [name] }));
  });
}

/** The graph with the value at these places; where a param sets one, the param has it. */
export function recall(graph: EditorGraph, kind: RecallKind, value: Recalled, places: readonly Place[]): EditorGraph {
  const values: Json[] =
    kind === "size" ? [value.size?.width ?? 0, value.size?.height ?? 0] : [(value[kind] as Json | undefined) ?? ""];
  return places.reduce(
    (whole, place) =>
      place.sockets.reduce((last, socket, index) => giveValue(last, place.node, socket, values[index] ?? ""), whole),
    graph,
  );
}

/** The graph with every value that the nodes of a result's workflow had, node by node; wires stay as they are. */
export function recallAll(graph: EditorGraph, from: EditorGraph): EditorGraph {
  return pairsOf({ graph }, { graph: from }).reduce((whole, [to, source]) => {
    const given = own(from.nodes, source)?.inputs ?? {};
    const held = own(whole.nodes, to)?.inputs ?? {};
    const sockets = new Set([...Object.keys(given), ...Object.keys(held)]);
    return [...sockets].reduce((last, socket) => {
      const [now, then] = [own(held, socket), own(given, socket)];
      if (isLink(now) || isLink(then)) return last;
      const value = plainValue(from, then);
      if (value === undefined) return isParamRef(now) ? last : setInput(last, to, socket, undefined);
      return plainValue(last, now) === value ? last : giveValue(last, to, socket, value);
    }, whole);
  }, graph);
}

/** What a result's run was given, whole: a result's own prompt may be cut. */
export function recalledOf(
  graph: EditorGraph,
  catalog: Catalog,
  result: ResultFacts,
  needed: ReadonlySet<string>,
): Recalled {
  const texts = (socket: string) =>
    Object.entries(graph.nodes)
      .filter(([node]) => needed.has(node))
      .map(([node, { inputs }]) => {
        const isThere = nodeSpec(graph, catalog, node)?.inputs.some(({ name }) => name === socket);
        return isThere ? plainValue(graph, own(inputs, socket)) : undefined;
      })
      .find((text) => typeof text === "string" && text !== "") as string | undefined;
  const prompt = texts("prompt") ?? result.prompt;
  const negative = texts("negative_prompt");
  return {
    ...(prompt && { prompt }),
    ...(negative && { negative_prompt: negative }),
    ...(result.seed !== null && { seed: result.seed }),
    ...(result.width > 0 && { size: { width: result.width, height: result.height } }),
  };
}

interface ResultFacts {
  prompt: string;
  seed: number | string | null;
  width: number;
  height: number;
}
