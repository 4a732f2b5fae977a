/** The form of a workflow: one field for each param it declares, drawn like the sockets that the param feeds. */

import { isDigits, limitOf } from "../exact";
import type { Catalog, GraphFile, InputSpec, Json, Param, Scalar } from "../types";
import { specIn } from "../graph/subs";
import { worded } from "../worded";

export type FormValues = Record<string, Json>;

/** In the file's order. What the param does not say (widget, step, range, choices) is the first fed socket's. */
export function fieldsOf(graph: GraphFile, catalog: Catalog): InputSpec[] {
  const sockets = fedSockets(graph, catalog);
  return Object.entries(graph.params ?? {}).map(([name, param]) => fieldOf(name, param, sockets.get(name)));
}

/** Fields under one heading; "" heads those that are in no group. */
export interface FieldGroup {
  title: string;
  fields: readonly InputSpec[];
}

/** Fields under their headings: those of a group together, where its first one stands; "" heads what is in none. */
export function groupsOf(graph: GraphFile, fields: readonly InputSpec[]): FieldGroup[] {
  const found: { title: string; fields: InputSpec[] }[] = [];
  for (const field of fields) {
    const { group } = graph.params?.[field.name] ?? {};
    const title = typeof group === "string" ? group : "";
    const last = found.at(-1);
    const there = title ? found.find((each) => each.title === title) : last?.title === "" ? last : undefined;
    if (there) there.fields.push(field);
    else found.push({ title, fields: [field] });
  }
  return found;
}

/** The values a form starts with: those remembered that the param would still take, else its default. */
export function startValues(fields: readonly InputSpec[], remembered: FormValues): FormValues {
  const values: FormValues = {};
  for (const field of fields) {
    const kept = Object.hasOwn(remembered, field.name) ? remembered[field.name] : undefined;
    const value = kept !== undefined && takes(field, kept) ? kept : field.default;
    if (value !== null && value !== undefined) values[field.name] = value;
  }
  return values;
}

/** Names of the fields that must be filled and are not. */
export function missing(fields: readonly InputSpec[], values: FormValues): string[] {
  return fields.filter(({ name, required }) => required && (values[name] ?? "") === "").map(({ name }) => name);
}

/** The seeds among the fields. */
export function seedsOf(fields: readonly InputSpec[]): InputSpec[] {
  return fields.filter(({ widget }) => widget === "seed");
}

/** The workflow with these values as the defaults of its params: it makes the same picture wherever it is opened. */
export function withDefaults(graph: GraphFile, values: FormValues): GraphFile {
  const params: Record<string, Param> = {};
  for (const [name, param] of Object.entries(graph.params ?? {})) {
    const value = values[name];
    const isValue = ["string", "number", "boolean"].includes(typeof value) || Array.isArray(value);
    params[name] = isValue ? { ...param, default: value as Scalar | Scalar[] } : param;
  }
  return { ...graph, params };
}

function fieldOf(name: string, param: Param, socket: InputSpec | undefined): InputSpec {
  const isChoice = param.type === "choice" || (param.type === "string" && socket?.type === "choice");
  const isNumber = param.type === "int" || param.type === "float";
  return {
    name,
    type: isChoice ? "choice" : param.type,
    required: param.default === undefined || param.default === null,
    default: param.default ?? null,
    choices: param.choices?.length ? param.choices : (socket?.choices ?? []),
    min: limitOf(param.min) ?? (isNumber ? (socket?.min ?? null) : null),
    max: limitOf(param.max) ?? (isNumber ? (socket?.max ?? null) : null),
    step: param.type === "float" ? (socket?.step ?? null) : null,
    widget: isChoice ? "" : (socket?.widget ?? ""),
    advanced: false,
    auto: socket?.auto ?? false,
    help: worded(param.help ?? "") || socket?.help || "",
  };
}

function fedSockets(graph: GraphFile, catalog: Catalog): Map<string, InputSpec> {
  const subs = graph.subs ?? {};
  const known = (node: string, socket: string) =>
    specIn(subs, catalog, graph.nodes[node]?.type ?? "")?.inputs.find(({ name }) => name === socket);
  const found = new Map<string, InputSpec>();
  for (const [param, { node, socket }] of fedBy(graph, (...place) => known(...place) !== undefined)) {
    const input = known(node, socket);
    if (input) found.set(param, input);
  }
  return found;
}

/** The first input that each param sets, of those that are wanted. */
export function fedBy(
  graph: GraphFile,
  isWanted: (node: string, socket: string) => boolean = () => true,
): Map<string, { node: string; socket: string }> {
  const found = new Map<string, { node: string; socket: string }>();
  for (const [node, { inputs }] of Object.entries(graph.nodes)) {
    for (const [socket, value] of Object.entries(inputs ?? {})) {
      const param = paramOf(value);
      if (param !== null && !found.has(param) && isWanted(node, socket)) found.set(param, { node, socket });
    }
  }
  return found;
}

function paramOf(value: unknown): string | null {
  if (typeof value !== "object" || value === null || !("param" in value)) return null;
  return typeof value.param === "string" ? value.param : null;
}

function takes(field: InputSpec, value: Json): boolean {
  if (field.type === "choice") return field.choices.includes(String(value));
  if (field.type === "bool") return typeof value === "boolean";
  if (field.type === "int" || field.type === "float") return typeof value === "number" || isDigits(value);
  if (field.type.startsWith("list[")) return Array.isArray(value) && value.length > 0;
  return typeof value === "string";
}
