import { Fragment } from "react";
import { specFor, titleOf } from "../../graph/catalog";
import { rename } from "../../graph/edits";
import { idsOf, itemKey } from "../../graph/items";
import { isName } from "../../graph/names";
import { has } from "../../graph/record";
import { t } from "../../i18n";
import { openHelpOf } from "../../panels/help/openHelp";
import { runTo } from "../../panels/runs/runActions";
import { Button } from "../../parts/Button";
import { IconButton } from "../../parts/IconButton";
import { FrameButton } from "../../material/frame/FrameButton";
import { edit, editorStore, select, useEditor } from "../../store/editor";
import { toast } from "../../store/page";
import type { Mode } from "../../types";
import { applyMode, collapse, duplicate, paint, remove, retitle } from "../commands/itemCommands";
import { addLora, takesLora } from "../commands/loraCommands";
import { ColorPick } from "./ColorPick";
import { agreed, commonInputs } from "./commonInputs";
import { EachEditor } from "./EachEditor";
import { InputEditor } from "./InputEditor";
import { NodeSize } from "../nodes/NodeSize";
import { TextBox } from "./TextBox";

const MODES: readonly Mode[] = ["run", "mute", "bypass"];

/** The selected nodes: what they are called, how they look, and the inputs that all of them have. */
export function NodesPanel({ names }: { names: readonly string[] }) {
  const graph = useEditor((state) => state.graph);
  const catalog = useEditor((state) => state.catalog);
  const nodes = names.flatMap((name) => graph.nodes[name] ?? []);
  const [only] = nodes;
  const name = names.length === 1 ? names[0] : undefined;
  const spec = only && specFor(graph, catalog, only);
  const keys = names.map((each) => itemKey("node", each));
  const isFolded = nodes.every((node) => node.collapsed);
  const inputs = commonInputs(graph, catalog, names).filter((input) => !only?.each?.[input.spec.name]);
  return (
    <>
      <header className="ll-inspector-head">
        <h2>{name ? titleOf(graph, catalog, name) : t("canvas.num_nodes", { n: names.length })}</h2>
        {name && <IconButton icon="help" label={t("help.open")} onClick={() => openHelpOf(name)} />}
        <IconButton icon="play" label={t("canvas.run_here")} onClick={() => void runTo(...names)} />
        <IconButton
          icon={isFolded ? "chevron-right" : "chevron-down"}
          label={t(isFolded ? "canvas.unfold" : "canvas.fold")}
          onClick={() => collapse(names, !isFolded)}
        />
        <IconButton icon="duplicate" label={t("canvas.duplicate")} onClick={duplicate} />
        <IconButton icon="trash" label={t("canvas.remove")} onClick={() => remove()} />
      </header>
      {name && only && (
        <>
          {spec?.help && <p className="ll-inspector-help">{spec.help}</p>}
          <TextBox
            id="ll-in-title"
            label={t("canvas.node_title")}
            help={t("canvas.node_title_help")}
            value={only.title}
            placeholder={spec?.title ?? only.type}
            onSettle={(title) => retitle(name, title)}
          />
          <TextBox
            id="ll-in-name"
            label={t("canvas.node_name")}
            help={t("canvas.name_help")}
            value={name}
            onSettle={(next) => renameNode(name, next)}
          />
        </>
      )}
      <div className="ll-inspector-line">
        <span id="ll-in-mode">{t("canvas.mode")}</span>
        <div className="ll-modes" role="group" aria-labelledby="ll-in-mode">
          {MODES.map((mode) => (
            <button
              key={mode}
              type="button"
              className="ll-mode"
              aria-pressed={agreed(nodes.map((node) => node.mode)) === mode}
              title={t(`canvas.mode_${mode}_help`)}
              onClick={() => applyMode(mode, names)}
            >
              {t(`canvas.mode_${mode}`)}
            </button>
          ))}
        </div>
      </div>
      <ColorPick value={agreed(nodes.map((node) => node.color ?? ""))} onPick={(color) => paint(keys, color)} />
      {inputs.length > 0 && (
        <h3 className="ll-inspector-title">{t(name ? "canvas.inputs" : "canvas.common_inputs")}</h3>
      )}
      {inputs.map((input) => (
        <Fragment key={input.spec.name}>
          <InputEditor names={names} input={input} />
          {name && input.spec.name === "height" && <NodeSize name={name} />}
        </Fragment>
      ))}
      {name && takesLora(name) && (
        <Button icon="plus" onClick={() => addLora(name)}>
          {t("canvas.add_lora")}
        </Button>
      )}
      {name && <FrameButton key={`frame ${name}`} node={name} />}
      {name && <EachEditor key={`each ${name}`} name={name} />}
      {names.length > 1 && inputs.length === 0 && <p className="ll-inspector-help">{t("canvas.nothing_common")}</p>}
    </>
  );
}

function renameNode(from: string, to: string): void {
  const { graph, selection } = editorStore.getState();
  if (!isName(to) || has(graph.nodes, to)) {
    toast({ kind: "error", text: t(isName(to) ? "canvas.name_taken" : "canvas.name_wrong", { name: to }) });
    return;
  }
  edit(t("canvas.rename"), (last) => rename(last, from, to));
  if (idsOf(selection, "node").includes(from)) select([itemKey("node", to)]);
}
