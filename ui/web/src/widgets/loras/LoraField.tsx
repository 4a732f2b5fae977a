import { useContext, useState } from "react";
import { nodeAt } from "../../graph/edits/params";
import { modelBehind, promptsOf } from "../../graph/loras";
import { urls } from "../../host";
import { t } from "../../i18n";
import { Combobox } from "../../parts/overlays/Combobox";
import { useEditor } from "../../store/editor";
import { GraphOfFields } from "../graphOfFields";
import { SETTLED, asText, type WidgetProps } from "../widget";
import { loraOptions } from "./loraOptions";
import { loadLoras, useLoras } from "../../models/lorasStore";
import { Triggers } from "./Triggers";

const KEY = "latentloom.loras";
const MAX_KEPT = 20;

/** A LoRA: one of those on the server, those first that fit the model, or any file by name. */
export function LoraField(props: WidgetProps) {
  const { id, value, onChange, disabled, describedBy, isInvalid, place = "" } = props;
  const [used, setUsed] = useState<readonly string[]>([]);
  const [isAsked, setAsked] = useState(false);
  const catalog = useEditor((state) => state.catalog);
  useEditor((state) => state.graph); // which model it is may change
  const graph = useContext(GraphOfFields)();
  const node = nodeAt(graph, place);
  const model = modelBehind(graph, catalog, node);
  const file = asText(value);
  const view = useLoras(model, isAsked || file !== "");
  const chosen = view?.loras.find(({ path }) => path === file);
  const choose = (next: string) => {
    remember(next);
    onChange(next, SETTLED);
  };
  return (
    <div className="ll-lora">
      <Combobox
        id={id}
        value={file}
        options={loraOptions(view?.loras ?? [], used, urls.loraThumb)}
        isFree
        disabled={disabled}
        describedBy={describedBy}
        isInvalid={isInvalid}
        placeholder={props.placeholder ?? t(view?.loras.length ? "widgets.lora_choose" : "widgets.lora_hint")}
        onOpen={() => {
          setUsed(remembered());
          setAsked(true);
          if (view) void loadLoras(model); // another may lie there now
        }}
        onChange={choose}
      />
      {chosen && (
        <Triggers words={chosen.triggers} prompts={promptsOf(graph, catalog, node)} disabled={Boolean(disabled)} />
      )}
    </div>
  );
}

function remembered(): string[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(found) ? found.filter((entry) => typeof entry === "string") : [];
  } catch {
    return []; // no storage, or another program's text
  }
}

function remember(file: string): void {
  if (!file) return;
  const next = [file, ...remembered().filter((entry) => entry !== file)].slice(0, MAX_KEPT);
  try {
    localStorage.setItem(KEY, JSON.stringify(next));
  } catch {
    return; // full or forbidden: nothing is offered next time
  }
}
