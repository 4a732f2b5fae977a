/** Where a node's handles will be, before it is drawn: only then can what is out of sight be left out of the page. */

import { Position, type NodeHandle } from "@xyflow/react";
import type { EditorNode, NodeSpec } from "../../types";
import { hasPicture } from "../look";
import { nodeView, type InputView } from "../nodes/nodeView";

/** In pixels, as in nodes.css; a node that comes into sight is measured. */
const HEAD = 46;
/** Above the first row. */
const PAD = 7;
const SOCKET = 24;
const ROW = 30;
const TALL_ROW = 78;
/** `--ll-picture` */
const PICTURE = 168;
const HANDLE = 12;
const DOT = 13;
const TALL: ReadonlySet<string> = new Set(["multiline", "json", "model", "lora", "picture", "mask", "audio"]);

export interface Estimate {
  handles: NodeHandle[];
  initialHeight: number;
}

const known = new WeakMap<EditorNode, { about: string; value: Estimate }>();

/** The same object for the same node, so that React Flow's node stays the same too. */
export function estimate(node: EditorNode, spec: NodeSpec | undefined, width: number, used: string): Estimate {
  const about = `${spec?.id} ${spec?.help} ${width} ${used}`;
  const old = known.get(node);
  if (old?.about === about) return old.value;
  const value = measure(node, spec, width, used);
  known.set(node, { about, value });
  return value;
}

function measure(node: EditorNode, spec: NodeSpec | undefined, width: number, used: string): Estimate {
  const view = nodeView(node, spec, { used, isAdvancedOpen: false });
  const handles: NodeHandle[] = [];
  const put = (type: "source" | "target", id: string, y: number) => {
    const isInput = type === "target";
    const x = (isInput ? 0 : width) - HANDLE / 2;
    const position = isInput ? Position.Left : Position.Right;
    handles.push({ id, type, position, x, y: y - HANDLE / 2, width: HANDLE, height: HANDLE });
  };
  const rows = [...view.fields, ...view.advanced];
  if (node.collapsed) {
    for (const { spec: input } of [...view.sockets, ...rows]) put("target", input.name, HEAD / 2);
    for (const { spec: output } of view.outputs) put("source", output.name, HEAD / 2);
    return { handles, initialHeight: HEAD };
  }
  view.sockets.forEach(({ spec: input }, index) => put("target", input.name, HEAD + PAD + index * SOCKET + DOT));
  view.outputs.forEach(({ spec: output }, index) => put("source", output.name, HEAD + PAD + index * SOCKET + DOT));
  let y = HEAD + PAD + Math.max(view.sockets.length, view.outputs.length) * SOCKET;
  for (const row of rows) {
    put("target", row.spec.name, y + DOT);
    y += heightOf(row);
  }
  return { handles, initialHeight: y + PAD + (view.numAdvanced ? ROW : 0) + (hasPicture(spec) ? PICTURE : 0) };
}

function heightOf({ spec, isLinked }: InputView): number {
  return !isLinked && TALL.has(spec.widget) ? TALL_ROW : ROW;
}
