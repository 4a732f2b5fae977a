/** Folding nodes into one that uses a sub-workflow, and unfolding it. */

import type {
  Catalog,
  EditorGraph,
  EditorNode,
  InputValue,
  Json,
  Link,
  NodeFile,
  Point,
  SubFile,
  SubParam,
} from "../../types";
import { nodeSpec, outputSpec } from "../catalog";
import { readNode, writeNode } from "../file/nodeFile";
import { itemKey } from "../items";
import { freshName } from "../names";
import { filterRecord, has, mapRecord, own, withEntry, without } from "../record";
import { SUB, subOf } from "../subs";
import { isLink, isParamRef, joinTarget, splitTarget } from "../values";
import { replaceMembers } from "./frames";
import { tidyReroutes } from "./reroutes";
import { MARK, newSeedsOf, renameSeeds } from "./seeds";

/** What stands in the form of a folded node by itself: what is changed from run to run. */
const FORM: readonly string[] = ["multiline", "seed"];

/** Fold nodes into one, whose sockets are the wires that cross. null where there is nothing to fold. */
export function fold(
  graph: EditorGraph,
  catalog: Catalog,
  names: readonly string[],
  title = "",
): { graph: EditorGraph; name: string } | null {
  const inside = new Set(names.filter((name) => has(graph.nodes, name)));
  if (!inside.size) return null;
  const params: Record<string, SubParam> = {};
  const given: Record<string, InputValue> = {};
  const byValue = new Map<string, string>();
  /** The param that stands for a value from outside; one for all that come from the same place. */
  const param = (key: string, wanted: string, found: SubParam, value: InputValue): InputValue => {
    let name = byValue.get(key);
    if (!name) {
      name = freshName(wanted, (taken) => has(params, taken));
      byValue.set(key, name);
      params[name] = found;
      given[name] = value;
    }
    return { param: name };
  };
  const nodes: Record<string, NodeFile> = {};
  for (const name of inside) {
    const node = graph.nodes[name] as EditorNode;
    const spec = nodeSpec(graph, catalog, name);
    const inputs = mapRecord(node.inputs, (value, socket): InputValue => {
      const input = spec?.inputs.find((each) => each.name === socket);
      if (isLink(value)) {
        if (inside.has(splitTarget(value.from)[0])) return value;
        const type = outputSpec(graph, catalog, value.from)?.type ?? input?.type ?? "string";
        return param(`from ${value.from}`, socket, { type }, value);
      }
      if (isParamRef(value)) {
        const type = own(graph.params, value.param)?.type ?? input?.type ?? "string";
        return param(`param ${value.param}`, value.param, { type }, value);
      }
      if (!input || !FORM.includes(input.widget)) return value;
      return param(`own ${name}.${socket}`, socket, { type: input.type }, value);
    });
    nodes[name] = writeNode({ ...node, inputs });
  }
  const outputs: Record<string, Link> = {};
  const user = freshName("part", (taken) => has(graph.nodes, taken));
  const moved = (from: string): string => {
    const [node, socket] = splitTarget(from);
    if (!inside.has(node)) return from;
    let output = Object.keys(outputs).find((each) => outputs[each]?.from === from);
    if (!output) {
      output = freshName(socket, (taken) => has(outputs, taken));
      outputs[output] = { from };
    }
    return joinTarget(user, output);
  };
  const rest = rewired({ ...graph, nodes: filterRecord(graph.nodes, (_, name) => !inside.has(name)) }, moved);
  const at = firstOf([...inside].map((name) => (graph.nodes[name] as EditorNode).at));
  const key = freshName("part", (taken) => has(graph.subs, taken));
  const layout = Object.fromEntries([...inside].map((name) => [name, (graph.nodes[name] as EditorNode).at]));
  const isInside = (seed: string): boolean => inside.has(splitTarget(seed)[0]);
  const seeds = newSeedsOf(graph).filter((seed) => isInside(seed) && !byValue.has(`own ${seed}`));
  const marks: Record<string, Json> = seeds.length > 0 ? { [MARK]: seeds } : {};
  const sub: SubFile = { ...(title && { title }), params, nodes, outputs, layout: { ...layout, ...marks } };
  const node: EditorNode = { type: SUB + key, version: 1, title: "", mode: "run", inputs: given, at };
  return {
    graph: tidyReroutes({
      ...renameSeeds(rest, (seed) => {
        const outside = byValue.get(`own ${seed}`);
        return outside ? joinTarget(user, outside) : isInside(seed) ? [] : seed;
      }),
      nodes: withEntry(rest.nodes, user, node),
      groups: replaceMembers(
        graph.groups,
        [...inside].map((each) => itemKey("node", each)),
        [itemKey("node", user)],
      ),
      subs: withEntry(graph.subs, key, sub),
      rest: filterRecord(rest.rest, (_, entry) => !inside.has(entry)),
    }),
    name: user,
  };
}

/** The nodes of a sub-workflow in place of the node that uses it. null where it uses none, or goes through a list. */
export function unfold(graph: EditorGraph, name: string): { graph: EditorGraph; names: string[] } | null {
  const user = own(graph.nodes, name);
  const sub = user && subOf(graph.subs, user.type);
  if (!user || !sub || Object.keys(user.each ?? {}).length) return null;
  const rest = without(graph.nodes, name);
  const fresh = new Map<string, string>();
  for (const each of Object.keys(sub.nodes)) {
    fresh.set(
      each,
      freshName(each, (taken) => has(rest, taken) || [...fresh.values()].includes(taken)),
    );
  }
  const target = (from: string): string => {
    const [node, socket] = splitTarget(from);
    return joinTarget(fresh.get(node) ?? node, socket);
  };
  const places = mapRecord(sub.nodes, (_, each) => placeOf(sub.layout?.[each]));
  const first = firstOf(Object.values(places));
  const nodes = Object.entries(sub.nodes).map(([each, file]): [string, EditorNode] => {
    const [x, y] = places[each] ?? first;
    const at: Point = [user.at[0] + x - first[0], user.at[1] + y - first[1]];
    const node = readNode(file, { at });
    const entries = Object.entries(node.inputs).flatMap(([socket, value]): [string, InputValue][] => {
      if (isLink(value)) return [[socket, { from: target(value.from) }]];
      if (!isParamRef(value)) return [[socket, value]];
      const found = own(user.inputs, value.param) ?? own(sub.params ?? {}, value.param)?.default;
      return found === undefined || found === null ? [] : [[socket, found]];
    });
    const mode = user.mode === "run" ? node.mode : user.mode;
    return [fresh.get(each) ?? each, { ...node, mode, inputs: Object.fromEntries(entries) }];
  });
  const moved = (from: string): string => {
    const [node, socket] = splitTarget(from);
    const output = node === name ? own(sub.outputs ?? {}, socket) : undefined;
    return output ? target(output.from) : from;
  };
  const keys = [...fresh.values()].map((each) => itemKey("node", each));
  const groups = replaceMembers(graph.groups, [itemKey("node", name)], keys);
  const whole = rewired({ ...graph, groups, nodes: { ...rest, ...Object.fromEntries(nodes) } }, moved);
  return { graph: tidyReroutes(withUsedSubs(whole)), names: [...fresh.values()] };
}

/** Every link followed to its new place. */
export function rewired(graph: EditorGraph, moved: (from: string) => string): EditorGraph {
  const follow = <T>(value: T): T => (isLink(value) ? { ...value, from: moved(value.from) } : value);
  return {
    ...graph,
    nodes: mapRecord(graph.nodes, (node) => ({ ...node, inputs: mapRecord(node.inputs, follow) })),
    outputs: mapRecord(graph.outputs, follow),
    reroutes: mapRecord(graph.reroutes, (reroute) => ({ ...reroute, from: moved(reroute.from) })),
  };
}

/** Without the sub-workflows that no node uses, inside others either. */
function withUsedSubs(graph: EditorGraph): EditorGraph {
  return { ...graph, subs: usedSubs(graph, Object.values(graph.nodes)) };
}

/** The sub-workflows that nodes use, with those inside them. */
export function usedSubs(graph: Pick<EditorGraph, "subs">, nodes: readonly { type: string }[]): EditorGraph["subs"] {
  const used = new Set(nodes.map((node) => node.type));
  for (const type of used) for (const each of Object.values(subOf(graph.subs, type)?.nodes ?? {})) used.add(each.type);
  return filterRecord(graph.subs, (_, key) => used.has(SUB + key));
}

/** The graph with the sub-workflows of another, under fresh names where another one has theirs. */
export function withSubs(
  graph: EditorGraph,
  subs: EditorGraph["subs"],
): { graph: EditorGraph; typeOf: (type: string) => string } {
  const names = new Map<string, string>();
  const isSame = (key: string, sub: SubFile): boolean => JSON.stringify(own(graph.subs, key)) === JSON.stringify(sub);
  for (const [key, sub] of Object.entries(subs)) {
    const isTaken = (taken: string) => has(graph.subs, taken) || [...names.values()].includes(taken);
    names.set(key, isSame(key, sub) ? key : freshName(key, isTaken));
  }
  const typeOf = (type: string): string => {
    const name = type.startsWith(SUB) ? names.get(type.slice(SUB.length)) : undefined;
    return name === undefined ? type : SUB + name;
  };
  const added = Object.entries(subs).map(([key, sub]): [string, SubFile] => {
    const nodes = mapRecord(sub.nodes, (node) => ({ ...node, type: typeOf(node.type) }));
    return [names.get(key) ?? key, { ...sub, nodes }];
  });
  return { graph: { ...graph, subs: { ...graph.subs, ...Object.fromEntries(added) } }, typeOf };
}

/** Of the node that is nearest to the upper left: there lies what takes their place, and covers no other. */
function firstOf(places: readonly Point[]): Point {
  return places.reduce((first, at) => (at[0] + at[1] < first[0] + first[1] ? at : first));
}

function placeOf(value: unknown): Point {
  const at = Array.isArray(value) ? value : (value as { at?: unknown } | undefined)?.at;
  return Array.isArray(at) && typeof at[0] === "number" && typeof at[1] === "number" ? [at[0], at[1]] : [0, 0];
}
