import { inputSpec } from "../../graph/catalog";
import { modelBehind, type ModelSource } from "../../graph/loras";
import { joinTarget } from "../../graph/values";
import { t } from "../../i18n";
import { useModels } from "../../models/modelsStore";
import { hubAddress, hubModelIn, isHubId } from "../../models/pullCommand";
import { Button } from "../../parts/Button";
import { showGetModel, useMayFetch } from "../../models/downloadsStore";
import { useEditor } from "../../store/editor";
import type { Catalog, EditorGraph, Problem } from "../../types";

const NONE: ModelSource = { source: "", revision: "" };

/** A button that gets the model that a problem is about, where the server may fetch it. */
export function GetMissing({ problem }: { problem: Problem }) {
  const mayFetch = useMayFetch();
  const model = hubModelIn(useEditor((state) => hubAddress(modelAt(state.whole, state.catalog, problem))));
  if (!mayFetch || !model.source) return null;
  return <Offer model={model} />;
}

function Offer({ model }: { model: ModelSource }) {
  const { view } = useModels();
  const { source, revision } = model;
  if (!view || (!revision && view.models.some(({ name }) => name === source))) return null;
  return (
    <div className="ll-problem-mends">
      <Button icon="download" onClick={() => showGetModel(model)}>
        {t("panels.get_model", { model: source })}
      </Button>
    </div>
  );
}

/** The model of the hub that stands where the problem is; none for any other problem. */
export function modelAt(graph: EditorGraph, catalog: Catalog, { node, socket, kind }: Problem): ModelSource {
  const isModel = inputSpec(graph, catalog, joinTarget(node, socket))?.widget === "model";
  const found = kind === "error" && isModel ? modelBehind(graph, catalog, node) : null;
  const source = found?.source.trim() ?? "";
  return found && isHubId(source) ? { ...found, source } : NONE;
}
