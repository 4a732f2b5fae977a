/** A picture and a mask over it, put on the canvas as the two nodes that load them. */

import { specOf } from "../../graph/catalog";
import { addNode, connect } from "../../graph/edits";
import { freshName } from "../../graph/names";
import { has, own } from "../../graph/record";
import { isLink, joinTarget } from "../../graph/values";
import { t } from "../../i18n";
import type { Catalog, EditorGraph, Point } from "../../types";

const BESIDE = 336;

/** Below all that is there. A wire goes where exactly one socket of its type is free, so that none is guessed. */
export function withMaskedPicture(
  graph: EditorGraph,
  catalog: Catalog,
  { picture, mask }: { picture: string; mask: string },
): { graph: EditorGraph; names: string[] } {
  const [left, top] = below(graph);
  const image = placed(graph, catalog, "LoomLoadImage", { path: picture }, [left, top]);
  const free = { image: freeSocket(graph, catalog, "Image"), mask: freeSocket(graph, catalog, "Mask") };
  const inputs = { path: mask, channel: "luminance" };
  const both = placed(image.graph, catalog, "LoomLoadMask", inputs, [left + BESIDE, top]);
  const pictured = free.image ? connect(both.graph, joinTarget(image.name, "image"), free.image) : both.graph;
  const wired = free.mask ? connect(pictured, joinTarget(both.name, "mask"), free.mask) : pictured;
  return { graph: wired, names: [image.name, both.name] };
}

function placed(
  graph: EditorGraph,
  catalog: Catalog,
  type: string,
  inputs: Record<string, string>,
  at: Point,
): { graph: EditorGraph; name: string } {
  const spec = specOf(catalog, type);
  if (!spec) throw new Error(t("material.no_node", { type }));
  const name = freshName(type === "LoomLoadMask" ? "load_mask" : "load_image", (taken) => has(graph.nodes, taken));
  return { graph: addNode(graph, { name, spec, at, inputs }), name };
}

/** "node.socket" of the only input of a type that nothing feeds; "" where there are none or several. */
function freeSocket(graph: EditorGraph, catalog: Catalog, type: string): string {
  const free = Object.entries(graph.nodes).flatMap(([name, node]) =>
    (specOf(catalog, node.type)?.inputs ?? [])
      .filter((input) => input.type === type && !isLink(own(node.inputs, input.name)))
      .map((input) => joinTarget(name, input.name)),
  );
  return free.length === 1 ? free[0]! : "";
}

function below(graph: EditorGraph): Point {
  const places = Object.values(graph.nodes).map((node) => node.at);
  if (places.length === 0) return [40, 40];
  return [Math.min(...places.map((at) => at[0])), Math.max(...places.map((at) => at[1])) + 360];
}
