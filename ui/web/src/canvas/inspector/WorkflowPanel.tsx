import { describe, setOutput, setShown } from "../../graph/edits";
import { isName } from "../../graph/names";
import { specIn } from "../../graph/subs";
import { t } from "../../i18n";
import { IconButton } from "../../parts/IconButton";
import { edit, useEditor } from "../../store/editor";
import { toast } from "../../store/page";
import { focusNode } from "../commands/focusItem";
import { OutputAdder } from "./OutputAdder";
import { ParamEditor } from "./ParamEditor";
import { TextBox } from "./TextBox";

/** The workflow itself: name, description, the params its users set, the outputs it gives. */
export function WorkflowPanel() {
  const name = useEditor((state) => state.graph.name);
  const description = useEditor((state) => state.graph.description);
  const params = useEditor((state) => state.graph.params);
  const names = Object.keys(params);
  const isInside = useEditor((state) => state.inside.length > 0);
  return (
    <>
      <header className="ll-inspector-head">
        <h2>{t(isInside ? "canvas.sub_workflow" : "canvas.workflow")}</h2>
      </header>
      <TextBox
        id="ll-wf-name"
        label={t(isInside ? "canvas.title" : "canvas.workflow_name")}
        value={name}
        onSettle={(text) => text && edit(t("canvas.rename"), (graph) => describe(graph, { name: text }))}
      />
      <TextBox
        id="ll-wf-about"
        label={t("canvas.description")}
        value={description}
        isLong
        onSettle={(text) => edit(t("canvas.describe"), (graph) => describe(graph, { description: text }))}
      />
      <h3 className="ll-inspector-title">{t(isInside ? "canvas.sub_inputs" : "canvas.params")}</h3>
      <p className="ll-inspector-help">
        {t(isInside ? "canvas.sub_inputs_help" : names.length ? "canvas.params_help" : "canvas.no_params")}
      </p>
      {names.map((param, index) => (
        <ParamEditor key={param} name={param} isFirst={index === 0} isLast={index === names.length - 1} />
      ))}
      <Outputs />
      {!isInside && <ShownResults />}
    </>
  );
}

/** Of several nodes that make results, those that the simple view shows. */
function ShownResults() {
  const { nodes, subs } = useEditor((state) => state.graph);
  const catalog = useEditor((state) => state.catalog);
  const makers = Object.keys(nodes).filter((name) => specIn(subs, catalog, nodes[name]!.type)?.is_output);
  const shown = makers.filter((name) => !nodes[name]!.isUnshown);
  if (makers.length < 2) return null;
  return (
    <fieldset className="ll-shown-results">
      <legend className="ll-inspector-title">{t("canvas.shown_results")}</legend>
      <p className="ll-inspector-help">{t("canvas.shown_results_help")}</p>
      {makers.map((name) => (
        <label key={name} className="ll-shown-result">
          <input
            type="checkbox"
            checked={shown.includes(name)}
            disabled={shown.length === 1 && shown[0] === name}
            onChange={({ target }) => edit(t("canvas.shown_results"), (now) => setShown(now, name, target.checked))}
          />
          {nodes[name]!.title || name}
        </label>
      ))}
    </fieldset>
  );
}

function Outputs() {
  const outputs = useEditor((state) => state.graph.outputs);
  const entries = Object.entries(outputs);
  const isInside = useEditor((state) => state.inside.length > 0);
  return (
    <>
      <h3 className="ll-inspector-title">{t("canvas.declared_outputs")}</h3>
      <p className="ll-inspector-help">
        {t(isInside ? "canvas.sub_outputs_help" : entries.length ? "canvas.outputs_help" : "canvas.no_outputs")}
      </p>
      {entries.map(([name, { from }]) => (
        <div key={name} className="ll-output-line">
          <TextBox
            id={`ll-out-${name}`}
            label={t("canvas.from", { source: from })}
            value={name}
            onSettle={(next) => renameOutput(name, next)}
          />
          <IconButton
            icon="eye"
            label={t("canvas.show_node", { node: from })}
            onClick={() => focusNode(from.slice(0, from.indexOf(".")))}
          />
          <IconButton
            icon="trash"
            label={t("canvas.remove_output", { name })}
            onClick={() => edit(t("canvas.remove_output", { name }), (graph) => setOutput(graph, name, null))}
          />
        </div>
      ))}
      <OutputAdder />
    </>
  );
}

function renameOutput(from: string, to: string): void {
  if (!isName(to)) {
    toast({ kind: "error", text: t("canvas.name_wrong", { name: to }) });
    return;
  }
  edit(t("canvas.rename"), (graph) => {
    const link = graph.outputs[from];
    if (!link || graph.outputs[to]) return graph;
    const outputs = Object.entries(graph.outputs).map(([name, value]) => [name === from ? to : name, value]);
    return { ...graph, outputs: Object.fromEntries(outputs) };
  });
}
