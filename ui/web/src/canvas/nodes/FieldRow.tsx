import { memo } from "react";
import { asRead } from "../../exact";
import { shownList } from "../../graph/edits/each";
import { own } from "../../graph/record";
import { isLink, isParamRef, isWrapped } from "../../graph/values";
import { t } from "../../i18n";
import { spoken } from "../../parts/format";
import { useEditor } from "../../store/editor";
import { useTold } from "../../store/told";
import type { EachList, InputSpec, InputValue, Json } from "../../types";
import { Field, hasWidget } from "../../widgets/Field";
import { useCanvasUi } from "../canvasUi";
import { setParamValue, setValue } from "../commands/valueCommands";
import type { InputView } from "./nodeView";
import { problemsOf } from "./problemsOf";
import { SizeButton } from "./NodeSize";
import { Required } from "./Required";
import { SocketHandle } from "./SocketHandle";

const SHOWN = 60;

/** One input of plain values: its socket, and its field unless a wire brings the value. */
export const FieldRow = memo(Row, (a, b) => a.node === b.node && isSameInput(a.input, b.input));

function isSameInput(a: InputView, b: InputView): boolean {
  return a.spec === b.spec && a.value === b.value && a.each === b.each;
}

function Row({ node, input }: { node: string; input: InputView }) {
  const { spec, value, isLinked, isKnown, each } = input;
  const problem = useTold((told) => problemsOf(told.problems, node, spec.name));
  const isNear = useCanvasUi((state) => state.isNear);
  const isInside = useEditor((state) => state.inside.length > 0);
  const isMissing = spec.required && !isLinked && !each && isEmpty(value) && isEmpty(spec.default);
  const isDrawn = !isLinked && !each && isKnown && hasWidget(spec);
  const isShort = isDrawn && !isTall(spec);
  const paramHelp = isParamRef(value)
    ? isInside
      ? t("canvas.sub_input_help", { name: spoken(value.param) })
      : t("canvas.param_help", { name: value.param })
    : undefined;
  const classes = [
    "ll-row",
    isShort && paramHelp ? "ll-row-param" : "",
    isDrawn && !isShort ? "ll-row-tall" : "",
    spec.required ? "ll-row-required" : "",
    isMissing ? "ll-socket-missing" : "",
    problem ? "ll-row-problem" : "",
  ];
  return (
    <div className={classes.filter(Boolean).join(" ")} data-socket={spec.name} title={isShort ? paramHelp : undefined}>
      {(isNear || isLinked) && (
        <SocketHandle
          side="input"
          name={spec.name}
          type={spec.type}
          help={spec.help}
          isRequired={spec.required}
          isLinked={isLinked}
        />
      )}
      {isParamRef(value) && !isShort && (
        <span className="ll-param" title={paramHelp}>
          {badge(value.param, spec.name, isInside)}
        </span>
      )}
      {isNear && isDrawn && spec.name === "height" && <SizeButton name={node} />}
      {isDrawn ? (
        <Value node={node} spec={spec} value={value} problem={problem} isNear={isNear} />
      ) : (
        <span className="ll-row-label" title={spec.help || undefined}>
          {spoken(spec.name)}
          {spec.required && <Required />}
          {each && <em className="ll-each-list">{t("canvas.each_of", { list: eachText(each) })}</em>}
          {!isKnown && <em>{t("canvas.unknown_input")}</em>}
        </span>
      )}
    </div>
  );
}

/** Where the value comes from; under the same name that need not be said again. */
function badge(param: string, socket: string, isInside: boolean): string {
  if (isInside) return param === socket ? t("canvas.sub_outside") : t("canvas.sub_input", { name: spoken(param) });
  return param === socket ? t("canvas.param_badge") : t("canvas.param", { name: param });
}

/** The first words of a list. */
function eachText(each: EachList): string {
  const { text } = isLink(each) ? { text: each.from } : shownList(each);
  const words = text.trim().split("\n").join(", ");
  return words.length > SHOWN ? `${words.slice(0, SHOWN)}…` : words;
}

function isEmpty(value: InputValue | undefined): boolean {
  return value === undefined || value === null || value === "";
}

interface ValueProps {
  node: string;
  spec: InputSpec;
  value: InputValue | undefined;
  problem: string;
  isNear: boolean;
}

function Value({ node, spec, value, problem, isNear }: ValueProps) {
  const meant = useTold((told) => own(own(told.meant, node) ?? {}, spec.name));
  const tokens = useTold((told) => own(own(told.tokens, node) ?? {}, spec.name));
  const param = useEditor((state) => (isParamRef(value) ? own(state.graph.params, value.param) : undefined));
  const plain = isParamRef(value) ? param?.default : isWrapped(value) ? value.value : (value as Json | undefined);
  if (!isNear) return <Far spec={spec} value={plain ?? spec.default} />;
  return (
    <Field
      spec={spec}
      id={`ll-${node}-${spec.name}`}
      value={plain ?? null}
      meant={meant}
      tokens={tokens}
      problem={problem || undefined}
      seedKey={isParamRef(value) ? `$${value.param}` : `${node}.${spec.name}`}
      place={`${node}.${spec.name}`}
      compact
      onChange={(next, { commit }) =>
        isParamRef(value) ? setParamValue(value.param, next, commit) : setValue([node], spec.name, next, commit)
      }
    />
  );
}

/** Stands for a field that is too small on the screen to be read. */
function Far({ spec, value }: { spec: InputSpec; value: Json }) {
  return (
    <span className={`ll-far-row ${isTall(spec) ? "ll-far-tall" : ""}`}>
      <span>{spoken(spec.name)}</span>
      <span>{asRead(value)}</span>
    </span>
  );
}

function isTall({ widget }: InputSpec): boolean {
  return ["multiline", "json", "model", "lora", "picture", "mask", "audio"].includes(widget);
}
