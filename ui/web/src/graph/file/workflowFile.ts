/** The workflow file to the editor's graph and back, without loss. */

import { t } from "../../i18n";
import type { EditorGraph, EditorNode, GraphFile, Mode, NodeFile, Point } from "../../types";
import { arrange } from "../edits/arrange";
import { tidyReroutes } from "../edits/reroutes";
import { filterRecord, has, mapRecord } from "../record";
import { isLink } from "../values";
import { readFrames, readPlace, writeLayout } from "./layout";

export const FORMAT = 1;
const UNTITLED = "untitled";
const MODES: readonly string[] = ["run", "mute", "bypass"] satisfies Mode[];

/** The graph of a file. Nodes that its layout does not place are arranged.

The server has checked a file's form, but not that of a draft or of copied text: what is malformed there is left out.
Throws where it is no workflow at all. */
export function fromFile(file: GraphFile): EditorGraph {
  if (!isObject(file) || !isObject(file.nodes)) throw new Error(t("file.not_a_workflow"));
  const layout = recordOf(file.layout);
  const places = mapRecord(file.nodes, (_, name) => readPlace(layout, name));
  const graph: EditorGraph = {
    name: textOf(file.name) || UNTITLED,
    description: textOf(file.description),
    requires: recordOf(file.requires),
    params: filterRecord(recordOf(file.params), (param) => isObject(param)),
    nodes: mapRecord(file.nodes, (node, name) => readNode(node, { ...places[name], at: places[name]?.at ?? [0, 0] })),
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

const unplaced = new WeakSet<EditorGraph["nodes"]>();

/** Whether a graph is as a file gave it that says of no node where it lies. */
export function isUnplaced(graph: EditorGraph): boolean {
  return unplaced.has(graph.nodes);
}

/** The file of a graph, without what says nothing; `layout` comes last. */
export function toFile(graph: EditorGraph): GraphFile {
  return {
    ...(graph.schema && { $schema: graph.schema }),
    format: FORMAT,
    name: graph.name,
    ...(graph.description && { description: graph.description }),
    ...filled({ requires: graph.requires }),
    ...filled({ params: graph.params }),
    nodes: mapRecord(graph.nodes, writeNode),
    ...filled({ outputs: graph.outputs }),
    ...filled({ meta: graph.meta }),
    ...filled({ layout: writeLayout(graph) }),
  };
}

export function emptyGraph(name: string): EditorGraph {
  return fromFile({ format: FORMAT, name, nodes: {} });
}

/** Whether nothing lies on the canvas. */
export function isEmpty({ nodes, groups, notes }: EditorGraph): boolean {
  return !Object.keys(nodes).length && !groups.length && !notes.length;
}

function readNode(node: NodeFile, place: { at: Point } & Partial<EditorNode>): EditorNode {
  if (!isObject(node) || typeof node.type !== "string") throw new Error(t("file.not_a_workflow"));
  const version = typeof node.version === "number" ? node.version : 1;
  const mode = node.mode && MODES.includes(node.mode) ? node.mode : "run";
  return { type: node.type, version, title: textOf(node.title), mode, inputs: recordOf(node.inputs), ...place };
}

function writeNode(node: EditorNode): NodeFile {
  return {
    type: node.type,
    version: node.version,
    ...(node.title && { title: node.title }),
    ...(node.mode !== "run" && { mode: node.mode }),
    ...filled({ inputs: node.inputs }),
  };
}

function filled<T extends Record<string, object>>(part: T): Partial<T> {
  return Object.values(part).some((value) => Object.keys(value).length) ? part : {};
}

function recordOf<T>(value: Record<string, T> | undefined): Record<string, T> {
  return isObject(value) ? value : {};
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
