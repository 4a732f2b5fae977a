import { inputSpec } from "../../graph/catalog";
import { own } from "../../graph/record";
import { joinTarget, plainValue } from "../../graph/values";
import { t } from "../../i18n";
import { useModels } from "../../models/modelsStore";
import { isHubId } from "../../models/pullCommand";
import { Button } from "../../parts/Button";
import { showGetModel, useMayFetch } from "../../models/downloadsStore";
import { useEditor } from "../../store/editor";
import type { Catalog, EditorGraph, Problem } from "../../types";

/** A button that gets the model that a problem is about, where the server may fetch it. */
export function GetMissing({ problem }: { problem: Problem }) {
  const mayFetch = useMayFetch();
  const source = useEditor((state) => modelAt(state.whole, state.catalog, problem));
  if (!mayFetch || !isHubId(source)) return null;
  return <Offer source={source} />;
}

function Offer({ source }: { source: string }) {
  const { view } = useModels();
  if (!view || view.models.some(({ name }) => name === source)) return null;
  return (
    <div className="ll-problem-mends">
      <Button icon="download" onClick={() => showGetModel(source)}>
        {t("panels.get_model", { model: source })}
      </Button>
    </div>
  );
}

/** What stands where a model is named; "" for any other problem. */
export function modelAt(graph: EditorGraph, catalog: Catalog, { node, socket, kind }: Problem): string {
  const at = own(graph.nodes, node);
  const isModel = inputSpec(graph, catalog, joinTarget(node, socket))?.widget === "model";
  if (kind !== "error" || !at || !isModel) return "";
  const value = plainValue(graph, own(at.inputs, socket));
  return typeof value === "string" ? value.trim() : "";
}
