/** One node of the file to the editor's and back. What is malformed is left out; see `workflowFile.ts`. */

import { t } from "../../i18n";
import type { EditorNode, InputValue, Mode, NodeFile, Point } from "../../types";
import { own } from "../record";
import renamed from "./renamed.json";

const MODES: readonly string[] = ["run", "mute", "bypass"] satisfies Mode[];

interface Renamed {
  version: number;
  sockets: Record<string, { now: string; values: Record<string, string> }>;
}

const RENAMED: Record<string, Renamed> = renamed;

export function readNode(node: NodeFile, place: { at: Point } & Partial<EditorNode>): EditorNode {
  if (!isObject(node) || typeof node.type !== "string") throw new Error(t("file.not_a_workflow"));
  const version = typeof node.version === "number" ? node.version : 1;
  const mode = node.mode && MODES.includes(node.mode) ? node.mode : "run";
  const each = recordOf(node.each);
  const more = Object.keys(each).length ? { each } : {};
  return {
    type: node.type,
    ...renewed(node.type, version, recordOf(node.inputs)),
    title: textOf(node.title),
    mode,
    ...more,
    ...place,
  };
}

/** A node of an older version with today's sockets. One whose old socket has no plain value stays as it is: the server
knows what comes by a param. */
function renewed(
  type: string,
  version: number,
  inputs: Record<string, InputValue>,
): Pick<EditorNode, "version" | "inputs"> {
  const today = own(RENAMED, type);
  if (!today || version >= today.version) return { version, inputs };
  const renamed = Object.entries(today.sockets).flatMap(([name, { now, values }]) =>
    Object.hasOwn(inputs, name) ? [[now, own(values, String(inputs[name]))] as const] : [],
  );
  if (renamed.some(([, value]) => value === undefined)) return { version, inputs };
  const rest = Object.entries(inputs).filter(([name]) => !Object.hasOwn(today.sockets, name));
  return { version: today.version, inputs: Object.fromEntries([...renamed, ...rest]) as Record<string, InputValue> };
}

export function writeNode(node: EditorNode): NodeFile {
  return {
    type: node.type,
    version: node.version,
    ...(node.title && { title: node.title }),
    ...(node.mode !== "run" && { mode: node.mode }),
    ...filled({ inputs: node.inputs }),
    ...filled({ each: node.each ?? {} }),
  };
}

export function filled<T extends Record<string, object>>(part: T): Partial<T> {
  return Object.values(part).some((value) => Object.keys(value).length) ? part : {};
}

export function recordOf<T>(value: Record<string, T> | undefined): Record<string, T> {
  return isObject(value) ? value : {};
}

export function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

export function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
