/** Edits of values and params, as undo steps: what one gesture changes is one step. */

import { inputSpec } from "../../graph/catalog";
import { exposeParam, giveValue, hideParam, setInput, setParam } from "../../graph/edits";
import { freshName } from "../../graph/names";
import { has } from "../../graph/record";
import { asInput } from "../../graph/values";
import { t } from "../../i18n";
import { edit, editorStore, toldCatalog } from "../../store/editor";
import type { EditorGraph, InputSpec, Json, Param, Scalar } from "../../types";

let gesture = 0;

/** Until a value is committed, its changes belong to one undo step. */
function change(label: string, make: (graph: EditorGraph) => EditorGraph, key: string, commit: boolean): void {
  edit(label, make, `${key}#${gesture}`);
  if (commit) gesture++;
}

/** Give an input of one or more nodes a value. */
export function setValue(nodes: readonly string[], socket: string, value: Json, commit: boolean): void {
  const make = (graph: EditorGraph) =>
    nodes.reduce((last, node) => setInput(last, node, socket, asInput(value)), graph);
  change(t("canvas.edit_value", { name: socket }), make, `value:${nodes.join(",")}.${socket}`, commit);
}

/** Give a node both sides of what it paints, where a param sets one, the param. */
export function setSize(node: string, { width, height }: { width: number; height: number }, commit: boolean): void {
  const make = (graph: EditorGraph) => giveValue(giveValue(graph, node, "width", width), node, "height", height);
  change(t("widgets.shape"), make, `size:${node}`, commit);
}

/** Bring an input's default back. */
export function resetValue(nodes: readonly string[], socket: string): void {
  const make = (graph: EditorGraph) => nodes.reduce((last, node) => setInput(last, node, socket, undefined), graph);
  edit(t("canvas.edit_value", { name: socket }), make);
}

export function setParamValue(name: string, value: Json, commit: boolean): void {
  changeParam(name, { default: value as Scalar | null }, commit);
}

export function changeParam(name: string, fields: Partial<Param>, commit = true): void {
  const key = `param:${name}:${Object.keys(fields).join()}`;
  change(t("canvas.edit_param", { name }), (graph) => setParam(graph, name, fields), key, commit);
}

/** Let users of the workflow set an input by name. */
export function expose(node: string, spec: InputSpec): void {
  edit(t("canvas.expose", { name: spec.name }), (graph) => {
    const name = freshName(spec.name, (taken) => has(graph.params, taken));
    const told = inputSpec(graph, toldCatalog(), `${node}.${spec.name}`) ?? spec;
    return exposeParam(graph, node, {
      spec: told,
      name,
      isInside: editorStore.getState().inside.length > 0,
    });
  });
}

/** Take a param back; its value stays in the inputs that it set. */
export function unexpose(name: string): void {
  edit(t("canvas.unexpose", { name }), (graph) => hideParam(graph, name));
}
