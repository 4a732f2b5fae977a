/** What an input holds: a plain value, a link, a param, or a wrapped value. */

import type { EditorGraph, InputValue, Json, Link, ParamRef, Wrapped } from "../types";
import { own } from "./record";

export function isOnly(value: unknown, key: string): boolean {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const keys = Object.keys(value);
  return keys.length === 1 && keys[0] === key;
}

export function isLink(value: unknown): value is Link {
  return isOnly(value, "from") && typeof (value as Link).from === "string";
}

export function isParamRef(value: unknown): value is ParamRef {
  return isOnly(value, "param") && typeof (value as ParamRef).param === "string";
}

export function isWrapped(value: unknown): value is Wrapped {
  return isOnly(value, "value");
}

/** "node.socket" in its two parts. */
export function splitTarget(target: string): [node: string, socket: string] {
  const dot = target.indexOf(".");
  return dot < 0 ? [target, ""] : [target.slice(0, dot), target.slice(dot + 1)];
}

export function joinTarget(node: string, socket: string): string {
  return `${node}.${socket}`;
}

/** The output that feeds an input ("node.socket" to "node.socket"); null where it is not linked. */
export function sourceOf(graph: EditorGraph, input: string): string | null {
  const [node, socket] = splitTarget(input);
  const inputs = own(graph.nodes, node)?.inputs;
  const value = inputs && own(inputs, socket);
  return isLink(value) ? value.from : null;
}

/** The plain value that an input stands for; undefined for a link, a missing param and a param without default. */
export function plainValue(graph: EditorGraph, value: InputValue | undefined): Json | undefined {
  if (isLink(value)) return undefined;
  if (isParamRef(value)) return own(graph.params, value.param)?.default ?? undefined;
  return isWrapped(value) ? value.value : (value as Json | undefined);
}

/** A plain value as an input holds it: objects are wrapped, so that none looks like a link. */
export function asInput(value: Json): InputValue {
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  return isObject ? { value } : (value as InputValue);
}
