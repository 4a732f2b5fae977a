/** A picture on the canvas wired so that it is painted anew: Encode Image in the place of Empty Latents. */

import { specOf } from "../../graph/catalog";
import { addNode, connect, giveValue, removeItems } from "../../graph/edits";
import { itemKey } from "../../graph/items";
import { freshName } from "../../graph/names";
import { sourcesOf } from "../../graph/order";
import { has, own } from "../../graph/record";
import { plainValue, sourceOf, splitTarget } from "../../graph/values";
import type { Catalog, EditorGraph } from "../../types";

/** How much of a picture is painted anew where the workflow painted all of it. */
const STRENGTH = 0.6;
const [EMPTY, ENCODE] = ["LoomEmptyLatents", "LoomEncodeImage"];

/** The graph with the picture of `load` as what the first denoise of empty latents begins with; null where there is none
 * to be wired so. */
export function asImageToImage(graph: EditorGraph, catalog: Catalog, load: string): EditorGraph | null {
  const spec = specOf(catalog, ENCODE);
  const denoise = Object.keys(graph.nodes).find((name) => emptyBefore(graph, name) && sourceOf(graph, `${name}.model`));
  if (!spec || !denoise || !has(graph.nodes, load)) return null;
  const empty = emptyBefore(graph, denoise);
  const name = freshName("encode_image", (taken) => has(graph.nodes, taken));
  const inputs = {
    model: { from: sourceOf(graph, `${denoise}.model`) ?? "" },
    image: { from: `${load}.image` },
  };
  const added = addNode(graph, { name, spec, at: own(graph.nodes, empty)?.at ?? [0, 0], inputs });
  const wired = connect(added, `${name}.latents`, `${denoise}.latents`);
  const strength = plainValue(graph, own(graph.nodes[denoise]?.inputs ?? {}, "strength")) ?? 1;
  const weaker = strength === 1 ? giveValue(wired, denoise, "strength", STRENGTH) : wired;
  const isUsed = Object.keys(weaker.nodes).some((other) => sourcesOf(weaker, other).includes(empty));
  return isUsed ? weaker : removeItems(weaker, [itemKey("node", empty)]);
}

/** The Empty Latents that a node begins with; "" for none. */
function emptyBefore(graph: EditorGraph, name: string): string {
  const [node] = splitTarget(sourceOf(graph, `${name}.latents`) ?? "");
  return own(graph.nodes, node)?.type === EMPTY ? node : "";
}
