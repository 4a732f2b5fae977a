/** What a node shows, in which order: sockets, fields, the folded advanced ones, and what its spec does not know. */

import { own } from "../../graph/record";
import { isLink, isParamRef } from "../../graph/values";
import type { EachList, EditorNode, InputSpec, InputValue, NodeSpec, OutputSpec } from "../../types";
import { isScalar } from "../look";

export interface InputView {
  spec: InputSpec;
  value: InputValue | undefined;
  isLinked: boolean;
  isKnown: boolean;
  /** The list whose elements stand there. */
  each?: EachList;
}

export interface OutputView {
  spec: OutputSpec;
  isLinked: boolean;
}

export interface NodeView {
  /** Inputs that come over a wire only. */
  sockets: InputView[];
  fields: InputView[];
  /** Advanced inputs that are shown now; linked ones and params always are. */
  advanced: InputView[];
  numFolded: number;
  numAdvanced: number;
  outputs: OutputView[];
  /** Changes when handles come, go or move. */
  shape: string;
}

interface Shown {
  /** Names of the outputs that something is linked to, with spaces between. */
  used: string;
  isAdvancedOpen: boolean;
}

export function nodeView(node: EditorNode, spec: NodeSpec | undefined, { used, isAdvancedOpen }: Shown): NodeView {
  const inputs = [...(spec?.inputs ?? []).map((input) => view(node, input, true)), ...unknownInputs(node, spec)];
  const isShown = (input: InputView) => isAdvancedOpen || input.isLinked || isParamRef(input.value);
  const advanced = inputs.filter((input) => input.spec.advanced);
  const shown = advanced.filter(isShown);
  const plain = inputs.filter((input) => !input.spec.advanced);
  const outputs = outputViews(spec, used ? used.split(" ") : []);
  return {
    sockets: plain.filter((input) => !isScalar(input.spec.type)),
    fields: plain.filter((input) => isScalar(input.spec.type)),
    advanced: shown,
    numFolded: advanced.length - shown.length,
    numAdvanced: advanced.length,
    outputs,
    shape: [
      node.collapsed ? "-" : "+",
      ...[...plain, ...shown].map(
        (input) => input.spec.name + (input.isLinked ? "!" : "") + (isParamRef(input.value) ? "$" : ""),
      ),
      ...outputs.map((output) => `>${output.spec.name}`),
    ].join(" "),
  };
}

function view(node: EditorNode, spec: InputSpec, isKnown: boolean): InputView {
  const value = own(node.inputs, spec.name);
  const each = node.each && own(node.each, spec.name);
  return { spec, value, isLinked: isLink(value), isKnown, ...(each && { each }) };
}

/** Inputs that the file gives and the spec lacks: kept, and shown so that one can take them out. */
function unknownInputs(node: EditorNode, spec: NodeSpec | undefined): InputView[] {
  const known = new Set(spec?.inputs.map((input) => input.name));
  return Object.keys(node.inputs)
    .filter((name) => !known.has(name))
    .map((name) => view(node, { ...UNKNOWN, name }, false));
}

function outputViews(spec: NodeSpec | undefined, used: string[]): OutputView[] {
  const known = spec?.outputs ?? [];
  const extra = used.filter((name) => !known.some((output) => output.name === name));
  return [...known, ...extra.map((name) => ({ name, type: "", help: "" }))].map((output) => ({
    spec: output,
    isLinked: used.includes(output.name),
  }));
}

const UNKNOWN: InputSpec = {
  name: "",
  type: "",
  required: false,
  default: null,
  choices: [],
  min: null,
  max: null,
  step: null,
  widget: "",
  advanced: false,
  auto: false,
  help: "",
};
