/** Edits of the workflow's params: the values that its users set by name. */

import { isExact } from "../../exact";
import type { EachList, EditorGraph, InputSpec, InputValue, Json, Param, ParamType, Scalar } from "../../types";
import { isName } from "../names";
import { changeRecord, has, mapRecord, own, renameKey, withEntry, without } from "../record";
import { asInput, isLink, isParamRef, joinTarget, plainValue, splitTarget } from "../values";
import { newSeedsOf, renameSeeds, setSeedNew } from "./seeds";
import { setInput } from "./wires";

const TYPES: readonly string[] = ["string", "int", "float", "bool", "choice"] satisfies ParamType[];

/** Whether an input can be set by a param: those of plain values can. */
export function canExpose(spec: InputSpec): boolean {
  return TYPES.includes(spec.type);
}

/** The param that an input would become, with the value it has now. */
export function paramFor(graph: EditorGraph, node: string, spec: InputSpec): Param {
  const value = plainValue(graph, own(own(graph.nodes, node)?.inputs ?? {}, spec.name)) ?? spec.default;
  return {
    type: spec.type as ParamType,
    ...(value !== null && typeof value !== "object" ? { default: value as Scalar } : {}),
    ...(spec.choices.length ? { choices: spec.choices } : {}),
    ...(isExact(spec.min) ? { min: spec.min } : {}),
    ...(isExact(spec.max) ? { max: spec.max } : {}),
    ...(spec.help ? { help: spec.help } : {}),
  };
}

/** Let an input be set by a param; a new param takes the input's value, one that is there keeps its own. Inside of a
sub-workflow a wire, too, may come from outside. */
export function exposeParam(
  graph: EditorGraph,
  node: string,
  { spec, name, isInside = false }: { spec: InputSpec; name: string; isInside?: boolean },
): EditorGraph {
  if (!isName(name) || !has(graph.nodes, node) || !(isInside || canExpose(spec))) return graph;
  const params = has(graph.params, name) ? graph.params : withEntry(graph.params, name, paramFor(graph, node, spec));
  const isMoving = newSeedsOf(graph).includes(joinTarget(node, spec.name));
  const exposed = setInput({ ...graph, params }, node, spec.name, { param: name });
  return isMoving && params !== graph.params ? setSeedNew(exposed, `$${name}`, true) : exposed;
}

/** Take a param back: the inputs that it set keep its default as their own value. */
export function hideParam(graph: EditorGraph, name: string): EditorGraph {
  const param = own(graph.params, name);
  if (!param) return graph;
  const value = param.default === undefined || param.default === null ? undefined : asInput(param.default);
  const seeded = renameSeeds(graph, (key) => (key === `$${name}` ? usersOf(graph, name) : key));
  return { ...changeRefs(seeded, name, () => value), params: without(graph.params, name) };
}

/** A seed that is set stays as it is. */
export function setParam(graph: EditorGraph, name: string, change: Partial<Param>): EditorGraph {
  const param = own(graph.params, name);
  if (!param) return graph;
  const seeded = "default" in change ? setSeedNew(graph, `$${name}`, false) : graph;
  return { ...seeded, params: withEntry(graph.params, name, { ...param, ...change }) };
}

/** Give an input a value; where a param sets it, the param has the new value. */
export function giveValue(graph: EditorGraph, node: string, socket: string, value: Json): EditorGraph {
  const held = own(own(graph.nodes, node)?.inputs ?? {}, socket);
  if (isParamRef(held)) return setParam(graph, held.param, { default: value as Scalar });
  return setInput(graph, node, socket, asInput(value));
}

/** Give a param another name; a name that is taken or illegal changes nothing. */
export function renameParam(graph: EditorGraph, from: string, to: string): EditorGraph {
  if (from === to || !isName(to) || !has(graph.params, from) || has(graph.params, to)) return graph;
  const changed = { ...changeRefs(graph, from, () => ({ param: to })), params: renameKey(graph.params, from, to) };
  return renameSeeds(changed, (key) => (key === `$${from}` ? `$${to}` : key));
}

/** The inputs ("node.socket") that a param sets. */
export function usersOf(graph: EditorGraph, name: string): string[] {
  return Object.entries(graph.nodes).flatMap(([node, { inputs }]) =>
    Object.entries(inputs)
      .filter(([, value]) => isParamRef(value) && value.param === name)
      .map(([socket]) => `${node}.${socket}`),
  );
}

/** The node of a place: of "node.socket", or of "$name", the first that the param sets something of. */
export function nodeAt(graph: EditorGraph, place: string): string {
  return splitTarget(place.startsWith("$") ? (usersOf(graph, place.slice(1))[0] ?? "") : place)[0];
}

function changeRefs(graph: EditorGraph, name: string, change: () => InputValue | undefined): EditorGraph {
  const isRef = (value: InputValue): boolean => !isLink(value) && isParamRef(value) && value.param === name;
  const nodes = mapRecord(graph.nodes, (node) => {
    const each = node.each && eachRefs(node.each, name, change());
    if (!Object.values(node.inputs).some(isRef)) return each === node.each ? node : { ...node, each };
    const inputs = Object.entries(node.inputs)
      .map(([socket, value]) => [socket, isRef(value) ? change() : value] as const)
      .filter(([, value]) => value !== undefined);
    return { ...node, ...(each && { each }), inputs: Object.fromEntries(inputs) as Record<string, InputValue> };
  });
  return { ...graph, nodes };
}

/** Lists that are the param, as what stands for it now; without a value the param's name stays, and the check tells. */
function eachRefs(
  each: Record<string, EachList>,
  name: string,
  value: InputValue | undefined,
): Record<string, EachList> {
  const isList = isParamRef(value) || Array.isArray(value);
  return changeRecord(each, (list) => (isList && isParamRef(list) && list.param === name ? (value as EachList) : list));
}
