/** The workflow file to the editor's graph and back, without loss. */

import { t } from "../../i18n";
import type { EditorGraph, GraphFile, Point } from "../../types";
import { arrange, GAP_Y } from "../edits/arrange";
import { tidyReroutes } from "../edits/reroutes";
import { filterRecord, has, mapRecord } from "../record";
import { isLink } from "../values";
import { readFrames, readPlace, writeLayout, type Place } from "./layout";
import { filled, isObject, readNode, recordOf, textOf, writeNode } from "./nodeFile";

/** The oldest; one with sub-workflows, lists or for-each is of format 2. */
export const FORMAT = 1;
const UNTITLED = "untitled";
/** No lower is a node taken to reach that is not drawn yet. */
const TALL = 640;

/** The graph of a file. Nodes that its layout does not place are arranged, below those that it does.

The server has checked a file's form, but not that of a draft or of copied text: what is malformed there is left out.
Throws where it is no workflow at all. */
export function fromFile(file: GraphFile): EditorGraph {
  if (!isObject(file) || !isObject(file.nodes)) throw new Error(t("file.not_a_workflow"));
  const layout = recordOf(file.layout);
  const places = mapRecord(file.nodes, (_, name) => readPlace(layout, name));
  const below = belowAll(Object.values(places));
  const graph: EditorGraph = {
    name: textOf(file.name) || UNTITLED,
    description: textOf(file.description),
    requires: recordOf(file.requires),
    params: filterRecord(recordOf(file.params), (param) => isObject(param)),
    subs: filterRecord(recordOf(file.subs), (sub) => isObject(sub) && isObject(sub.nodes)),
    nodes: mapRecord(file.nodes, (node, name) => readNode(node, { ...places[name], at: places[name]?.at ?? below })),
    outputs: filterRecord(recordOf(file.outputs), (output) => isLink(output)),
    ...readFrames(layout, (name) => has(file.nodes, name)),
    schema: textOf(file.$schema),
    meta: recordOf(file.meta),
  };
  const missing = Object.keys(places).filter((name) => !places[name]?.at);
  const whole = tidyReroutes(missing.length ? arrange(graph, { only: missing }) : graph);
  if (missing.length > 0 && missing.length === Object.keys(places).length) unplaced.add(whole.nodes);
  return whole;
}

function belowAll(places: readonly Place[]): Point {
  const placed = places.flatMap(({ at, size }) => (at ? [{ left: at[0], bottom: at[1] + (size?.[1] ?? TALL) }] : []));
  if (placed.length === 0) return [0, 0];
  return [Math.min(...placed.map(({ left }) => left)), Math.max(...placed.map(({ bottom }) => bottom)) + GAP_Y];
}

const unplaced = new WeakSet<EditorGraph["nodes"]>();

/** Whether a graph is as a file gave it that says of no node where it lies. */
export function isUnplaced(graph: EditorGraph): boolean {
  return unplaced.has(graph.nodes);
}

/** The file of a graph, without what says nothing; `layout` comes last. */
export function toFile(graph: EditorGraph): GraphFile {
  return {
    ...(graph.schema && { $schema: graph.schema }),
    format: formatOf(graph),
    name: graph.name,
    ...(graph.description && { description: graph.description }),
    ...filled({ requires: graph.requires }),
    ...filled({ params: graph.params }),
    nodes: mapRecord(graph.nodes, writeNode),
    ...filled({ subs: graph.subs }),
    ...filled({ outputs: graph.outputs }),
    ...filled({ meta: graph.meta }),
    ...filled({ layout: writeLayout(graph) }),
  };
}

function formatOf(graph: EditorGraph): number {
  const hasLists = Object.values(graph.params).some((param) => param.type.startsWith("list["));
  const hasEach = Object.values(graph.nodes).some((node) => Object.keys(node.each ?? {}).length > 0);
  return hasLists || hasEach || Object.keys(graph.subs).length > 0 ? 2 : FORMAT;
}

export function emptyGraph(name: string): EditorGraph {
  return fromFile({ format: FORMAT, name, nodes: {} });
}

/** Whether nothing lies on the canvas. */
export function isEmpty({ nodes, groups, notes }: EditorGraph): boolean {
  return !Object.keys(nodes).length && !groups.length && !notes.length;
}
