import { useState } from "react";
import { limitOf } from "../../exact";
import { renameParam } from "../../graph/edits";
import { usersOf } from "../../graph/edits/params";
import { isName } from "../../graph/names";
import { has, own } from "../../graph/record";
import { splitTarget } from "../../graph/values";
import { t } from "../../i18n";
import { spoken, spokenType } from "../../parts/format";
import { IconButton } from "../../parts/IconButton";
import { Icon } from "../../parts/icons";
import { edit, editorStore, useEditor } from "../../store/editor";
import { toast } from "../../store/page";
import { useTold } from "../../store/told";
import type { EditorGraph, InputSpec, Param } from "../../types";
import { Field, hasWidget } from "../../widgets/Field";
import { changeParam, setParamValue, unexpose } from "../commands/valueCommands";
import { NumberBox } from "./NumberBox";
import { TextBox } from "./TextBox";

interface ParamEditorProps {
  name: string;
  isFirst: boolean;
  isLast: boolean;
}

/** A declared param: its value, and folded away how it is named, explained, limited and ordered. */
export function ParamEditor({ name, isFirst, isLast }: ParamEditorProps) {
  const [isOpen, setOpen] = useState(false);
  const param = useEditor((state) => state.graph.params[name]);
  const widget = useEditor((state) => widgetFor(state.graph, state.catalog.nodes, name));
  const first = useEditor((state) => usersOf(state.graph, name)[0] ?? "");
  const tokens = useTold((told) => own(own(told.tokens, splitTarget(first)[0]) ?? {}, splitTarget(first)[1]));
  if (!param) return null;
  return (
    <section className="ll-param-editor" aria-label={t("canvas.param", { name })}>
      {!hasWidget(specFor(name, param, widget)) && (
        <p className="ll-panel-input ll-panel-free">
          <span>{spoken(name)}</span>
          <span>{t("canvas.sub_wire", { type: spokenType(param.type) })}</span>
        </p>
      )}
      {hasWidget(specFor(name, param, widget)) && (
        <Field
          spec={specFor(name, param, widget)}
          id={`ll-param-${name}`}
          value={param.default ?? null}
          tokens={tokens}
          seedKey={`$${name}`}
          onChange={(value, { commit }) => setParamValue(name, value, commit)}
        />
      )}
      <div className="ll-param-tools">
        <button type="button" className="ll-param-more" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          <Icon name={isOpen ? "chevron-down" : "chevron-right"} size={13} />
          {t("canvas.param_options")}
        </button>
        <IconButton
          icon="arrow-up"
          size={14}
          disabled={isFirst}
          label={t("canvas.param_up", { name })}
          onClick={() => order(name, -1)}
        />
        <IconButton
          icon="arrow-down"
          size={14}
          disabled={isLast}
          label={t("canvas.param_down", { name })}
          onClick={() => order(name, 1)}
        />
        <IconButton icon="trash" size={14} label={t("canvas.unexpose", { name })} onClick={() => unexpose(name)} />
      </div>
      {isOpen && <Options name={name} param={param} />}
    </section>
  );
}

function Options({ name, param }: { name: string; param: Param }) {
  const users = useEditor((state) => usersOf(state.graph, name).join(", "));
  const isInside = useEditor((state) => state.inside.length > 0);
  const isNumber = param.type === "int" || param.type === "float";
  return (
    <div className="ll-param-options">
      <p className="ll-inspector-help">{users ? t("canvas.param_users", { users }) : t("canvas.param_unused")}</p>
      <TextBox
        id={`ll-pn-${name}`}
        label={t("canvas.name")}
        help={t("canvas.param_name_help", { name })}
        value={name}
        onSettle={(next) => renameTo(name, next)}
      />
      <TextBox
        id={`ll-ph-${name}`}
        label={t("canvas.help_text")}
        value={param.help ?? ""}
        isLong
        onSettle={(help) => changeParam(name, { help })}
      />
      {!isInside && (
        <TextBox
          id={`ll-pg-${name}`}
          label={t("canvas.param_group")}
          help={t("canvas.param_group_help")}
          value={param.group ?? ""}
          onSettle={(group) => changeParam(name, { group: group.trim().slice(0, 100) })}
        />
      )}
      {isNumber && (
        <div className="ll-param-range">
          <NumberBox
            id={`ll-pl-${name}`}
            label={t("canvas.least")}
            value={limitOf(param.min)}
            onSettle={(min) => changeParam(name, { min })}
          />
          <NumberBox
            id={`ll-pm-${name}`}
            label={t("canvas.most")}
            value={limitOf(param.max)}
            onSettle={(max) => changeParam(name, { max })}
          />
        </div>
      )}
      {param.type === "choice" && (
        <TextBox
          id={`ll-pc-${name}`}
          label={t("canvas.choices")}
          help={t("canvas.choices_help")}
          value={(param.choices ?? []).join("\n")}
          isLong
          onSettle={(text) =>
            changeParam(name, {
              choices: text
                .split("\n")
                .map((line) => line.trim())
                .filter(Boolean),
            })
          }
        />
      )}
    </div>
  );
}

/** The param as the field draws it: like the input that it sets first. */
function specFor(name: string, param: Param, widget: InputSpec["widget"]): InputSpec {
  return {
    name: spoken(name),
    type: param.type,
    required: false,
    default: param.default ?? null,
    choices: param.choices ?? [],
    min: limitOf(param.min),
    max: limitOf(param.max),
    step: null,
    widget,
    advanced: false,
    auto: false,
    help: param.help ?? "",
  };
}

function widgetFor(
  graph: EditorGraph,
  specs: readonly { id: string; inputs: InputSpec[] }[],
  name: string,
): InputSpec["widget"] {
  const [node, socket] = (usersOf(graph, name)[0] ?? "").split(".");
  const type = node ? graph.nodes[node]?.type : undefined;
  return specs.find((spec) => spec.id === type)?.inputs.find((input) => input.name === socket)?.widget ?? "";
}

function renameTo(from: string, to: string): void {
  const isTaken = has(editorStore.getState().graph.params, to);
  if (isName(to) && !isTaken) edit(t("canvas.rename"), (graph) => renameParam(graph, from, to));
  else toast({ kind: "error", text: t(isTaken ? "canvas.name_taken" : "canvas.name_wrong", { name: to }) });
}

/** Forms show params in this order. */
function order(name: string, step: -1 | 1): void {
  edit(t("canvas.param_order"), (graph) => {
    const names = Object.keys(graph.params);
    const at = names.indexOf(name);
    names.splice(at, 1);
    names.splice(at + step, 0, name);
    return {
      ...graph,
      params: Object.fromEntries(names.flatMap((key) => (graph.params[key] ? [[key, graph.params[key]]] : []))),
    };
  });
}
