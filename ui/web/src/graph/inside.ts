/** The inside of a sub-workflow as a graph of its own, and what is edited there put back into the workflow.

A path names the nodes that one goes through: ["poster", "paint"] is the sub-workflow that `paint` uses inside of the one
that `poster` uses. */

import type { EditorGraph, EditorNode, Param, SubFile } from "../types";
import { rewired, usedSubs } from "./edits/fold";
import { MARK, newSeedsOf } from "./edits/seeds";
import { fromFile, toFile } from "./file/workflowFile";
import { changeRecord, filterRecord, has, mapRecord, own } from "./record";
import { SUB, isSub } from "./subs";
import { joinTarget, splitTarget } from "./values";

export type Path = readonly string[];

const opened = new WeakMap<SubFile, EditorGraph>();

/** What lies where a path leads; null where it leads nowhere. */
export function insideOf(whole: EditorGraph, path: Path): EditorGraph | null {
  let graph = whole;
  for (const name of path) {
    const key = keyIn(graph, name);
    const sub = own(whole.subs, key);
    if (!sub) return null;
    graph = open(whole.subs, key, sub);
  }
  return graph;
}

/** As much of a path as there is. */
export function pathIn(whole: EditorGraph, path: Path): Path {
  return insideOf(whole, path) ? path : pathIn(whole, path.slice(0, -1));
}

/** The name of the sub-workflow that a path leads to; "" for the workflow itself. */
export function keyAt(whole: EditorGraph, path: Path): string {
  const outer = path.length ? insideOf(whole, path.slice(0, -1)) : null;
  return outer ? keyIn(outer, path.at(-1) ?? "") : "";
}

/** The workflow with what lies at a path changed; whoever uses that sub-workflow follows its inputs and outputs. */
export function withInside(whole: EditorGraph, path: Path, next: EditorGraph): EditorGraph {
  const before = insideOf(whole, path);
  if (!before || next === before) return whole;
  const key = keyAt(whole, path);
  if (!key) return next;
  const sub = written(key, whole.subs[key], next);
  const changed = {
    ...whole,
    subs: { ...whole.subs, ...next.subs, [key]: sub },
  };
  return withUsers(changed, key, renamed(before.params, next.params), renamed(before.outputs, next.outputs));
}

/** The workflow with all its sub-workflows changed by one rule, which touches neither inputs nor outputs. */
export function withInsides(whole: EditorGraph, change: (graph: EditorGraph) => EditorGraph): EditorGraph {
  const subs = changeRecord(whole.subs, (sub, key) => {
    const before = open(whole.subs, key, sub);
    const next = change(before);
    return next === before ? sub : written(key, sub, next);
  });
  return subs === whole.subs ? whole : { ...whole, subs };
}

/** How many nodes of the workflow and its sub-workflows use one. */
export function usersOfSub(whole: EditorGraph, key: string): number {
  const lists: Readonly<Record<string, { type: string }>>[] = [
    whole.nodes,
    ...Object.values(whole.subs).map((sub) => sub.nodes),
  ];
  return lists.flatMap((nodes) => Object.values(nodes)).filter(({ type }) => type === SUB + key).length;
}

/** The workflow without the sub-workflows that its last edit has left without a user. */
export function withoutLost(before: EditorGraph, after: EditorGraph): EditorGraph {
  if (before.nodes === after.nodes && before.subs === after.subs) return after;
  const [old, now] = [before, after].map((graph) => usedSubs(graph, Object.values(graph.nodes)));
  const isLost = (key: string): boolean => has(old!, key) && !has(now!, key);
  return Object.keys(after.subs).some(isLost)
    ? { ...after, subs: filterRecord(after.subs, (_, key) => !isLost(key)) }
    : after;
}

/** Whether a sub-workflow is another one, or lies inside of it: then it may not be used there. */
export function contains(subs: EditorGraph["subs"], outer: string, inner: string): boolean {
  const nodes = Object.values(own(subs, outer)?.nodes ?? {});
  return outer === inner || has(usedSubs({ subs }, nodes), inner);
}

function keyIn(graph: EditorGraph, name: string): string {
  const type = own(graph.nodes, name)?.type ?? "";
  return isSub(type) ? type.slice(SUB.length) : "";
}

function open(subs: EditorGraph["subs"], key: string, sub: SubFile): EditorGraph {
  const kept = opened.get(sub);
  if (kept?.subs === subs) return kept;
  const graph = kept ?? fromFile(asFile(key, sub));
  const next = { ...graph, subs };
  opened.set(sub, next);
  return next;
}

function asFile(key: string, { title, help, params, nodes, outputs, layout }: SubFile) {
  return {
    format: 2,
    name: title || key,
    description: help ?? "",
    params: (params ?? {}) as Record<string, Param>, // wires' types among them
    nodes,
    outputs: outputs ?? {},
    layout: layout ?? {},
  };
}

function written(key: string, old: SubFile | undefined, next: EditorGraph): SubFile {
  const { name, description, nodes, params, outputs, layout } = toFile(next);
  const seeds = newSeedsOf(next);
  const sub: SubFile = {
    ...((name !== key || old?.title) && { title: name }),
    ...(description && { help: description }),
    ...(params && { params }),
    nodes,
    ...(outputs && { outputs }),
    ...((layout || seeds.length > 0) && { layout: { ...layout, ...(seeds.length > 0 && { [MARK]: seeds }) } }),
  };
  opened.set(sub, next);
  return sub;
}

type Renamed = ReadonlyMap<string, string | null>;

/** What became of each name that is gone: where one other stands in its place, that; else null. */
function renamed(before: Readonly<Record<string, unknown>>, after: Readonly<Record<string, unknown>>): Renamed {
  const gone = Object.keys(before).filter((name) => !has(after, name));
  const fresh = Object.keys(after).filter((name) => !has(before, name));
  const isName = gone.length === 1 && fresh.length === 1 && Object.keys(before).length === Object.keys(after).length;
  return new Map(gone.map((name) => [name, isName ? (fresh[0] ?? null) : null]));
}

function withUsers(whole: EditorGraph, key: string, params: Renamed, outputs: Renamed): EditorGraph {
  if (params.size + outputs.size === 0) return whole;
  const subs = changeRecord(whole.subs, (sub, name) => {
    if (!Object.values(sub.nodes).some(({ type }) => type === SUB + key)) return sub;
    return written(name, sub, following(open(whole.subs, name, sub), key, params, outputs));
  });
  return following({ ...whole, subs }, key, params, outputs);
}

/** A graph whose nodes of one sub-workflow have its inputs, and whose wires come from its outputs. */
function following(graph: EditorGraph, key: string, params: Renamed, outputs: Renamed): EditorGraph {
  const isUser = (name: string): boolean => own(graph.nodes, name)?.type === SUB + key;
  const moved = (from: string): string => {
    const [node, socket] = splitTarget(from);
    return isUser(node) ? joinTarget(node, outputs.get(socket) ?? socket) : from;
  };
  const keys = <T>(record: Readonly<Record<string, T>>): Record<string, T> =>
    Object.fromEntries(
      Object.entries(record).flatMap(([name, value]): [string, T][] => {
        const next = params.has(name) ? params.get(name) : name;
        return typeof next === "string" ? [[next, value]] : [];
      }),
    );
  const follow = (node: EditorNode): EditorNode =>
    node.type === SUB + key
      ? {
          ...node,
          inputs: keys(node.inputs),
          ...(node.each && { each: keys(node.each) }),
        }
      : node;
  const via = Object.entries(graph.via).map(([target, reroute]) => {
    const [node, socket] = splitTarget(target);
    return [isUser(node) ? joinTarget(node, params.get(socket) ?? socket) : target, reroute] as const;
  });
  const next = rewired(graph, moved);
  return {
    ...next,
    nodes: mapRecord(next.nodes, follow),
    via: Object.fromEntries(via),
  };
}
