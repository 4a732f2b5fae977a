import { useContext } from "react";
import { nodeAt } from "../graph/edits/params";
import { modelBehind, type ModelSource } from "../graph/loras";
import { t } from "../i18n";
import { useModels } from "../models/modelsStore";
import { isHubId, pullCommand } from "../models/pullCommand";
import { Button } from "../parts/Button";
import { CopyButton } from "../parts/CopyButton";
import { formatBytes } from "../parts/format";
import { Combobox, type Option } from "../parts/overlays/Combobox";
import { showGetModel, useMayFetch } from "../models/downloadsStore";
import { editorStore } from "../store/editor";
import type { ModelEntry } from "../types";
import { GraphOfFields } from "./graphOfFields";
import { SETTLED, asText, type WidgetProps } from "./widget";
import { worded } from "../worded";

/** A model's source: one of those on this machine, or any text that the node takes. */
export function ModelField(props: WidgetProps) {
  const { id, value, onChange, disabled, describedBy, isInvalid, placeholder, place = "" } = props;
  const { view } = useModels();
  const graph = useContext(GraphOfFields);
  const source = asText(value);
  const models = [...byName(view?.models ?? []).values()];
  const found = models.find(({ name }) => name === source);
  const isMissing = view !== null && !found && isHubId(source);
  const asked = (): ModelSource => {
    const node = nodeAt(graph(), place);
    return { source, revision: modelBehind(graph(), editorStore.getState().catalog, node)?.revision ?? "" };
  };
  return (
    <div>
      <Combobox
        id={id}
        value={source}
        options={models.map(optionOf)}
        isFree
        disabled={disabled}
        describedBy={describedBy}
        isInvalid={isInvalid || Boolean(found?.problem)}
        placeholder={placeholder ?? t("widgets.model_hint")}
        onChange={(next) => onChange(next, SETTLED)}
      />
      {found?.problem && <p className="ll-field-problem">{worded(found.problem)}</p>}
      {isMissing && <Missing model={asked()} isTold={Boolean(isInvalid)} />}
    </div>
  );
}

/** How to get a model; that it is not here is said once, by the check where that has said so. */
function Missing({ model, isTold }: { model: ModelSource; isTold: boolean }) {
  const mayFetch = useMayFetch();
  if (mayFetch)
    return (
      <div className="ll-field-said ll-model-missing">
        {!isTold && <span>{t("widgets.model_not_here")}</span>}
        <Button icon="download" onClick={() => showGetModel(model)}>
          {t("widgets.get_model")}
        </Button>
      </div>
    );
  return (
    <div className="ll-field-said ll-model-missing">
      <span>
        {!isTold && t("widgets.model_missing")} <code>{pullCommand(model)}</code>
      </span>
      <CopyButton text={pullCommand(model)} label={t("widgets.copy_command")} />
    </div>
  );
}

/** One of each name, of several revisions one that can be used. */
function byName(models: readonly ModelEntry[]): Map<string, ModelEntry> {
  const found = new Map<string, ModelEntry>();
  for (const model of models) if (found.get(model.name)?.problem !== "") found.set(model.name, model);
  return found;
}

function optionOf({ name, family, num_bytes, problem }: ModelEntry): Option {
  return { value: name, detail: `${family} · ${formatBytes(num_bytes)}`, problem: worded(problem) };
}
