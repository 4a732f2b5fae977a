/** One node of the file to the editor's and back. What is malformed is left out; see `workflowFile.ts`. */

import { t } from "../../i18n";
import type { EditorNode, Mode, NodeFile, Point } from "../../types";

const MODES: readonly string[] = ["run", "mute", "bypass"] satisfies Mode[];

export function readNode(node: NodeFile, place: { at: Point } & Partial<EditorNode>): EditorNode {
  if (!isObject(node) || typeof node.type !== "string") throw new Error(t("file.not_a_workflow"));
  const version = typeof node.version === "number" ? node.version : 1;
  const mode = node.mode && MODES.includes(node.mode) ? node.mode : "run";
  const each = recordOf(node.each);
  const more = Object.keys(each).length ? { each } : {};
  return {
    type: node.type,
    version,
    title: textOf(node.title),
    mode,
    inputs: recordOf(node.inputs),
    ...more,
    ...place,
  };
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
