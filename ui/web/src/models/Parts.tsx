import { useState } from "react";
import { language, t } from "../i18n";
import { formatBytes } from "../parts/format";
import type { ModelEntry, ModelPart } from "../types";
import { loraFacts } from "./loraFacts";
import { useLoras } from "./lorasStore";

/** What a model is made of: transformer, text encoders, VAE. */
export function Parts({ parts }: { parts: readonly ModelPart[] }) {
  if (parts.length === 0) return null;
  return (
    <details className="ll-plans">
      <summary>{t("models.parts", { count: parts.length })}</summary>
      <ul className="ll-plain-list ll-parts">
        {parts.map((part) => (
          <li key={part.name}>
            <code>{part.name}</code>
            <span>{factsOf(part)}</span>
          </li>
        ))}
      </ul>
    </details>
  );
}

function factsOf({ class_name, num_bytes, num_parameters, dtypes, tokens }: ModelPart): string {
  const count = num_parameters.toLocaleString(language(), { notation: "compact", maximumFractionDigits: 1 });
  const read = tokens === null ? "" : tokens ? t("models.reads", { tokens }) : t("models.reads_all");
  const size = formatBytes(num_bytes);
  return [class_name, size, t("models.parameters", { count }), dtypes.join(" + "), read].filter(Boolean).join(" · ");
}

/** The LoRAs of this server that fit a model, looked for once somebody wants to know. */
export function FittingLoras({ model }: { model: ModelEntry }) {
  const [isOpen, setOpen] = useState(false);
  const view = useLoras({ source: model.name, revision: model.revision }, isOpen);
  const loras = view?.loras.filter(({ verdict }) => verdict === "fits" || verdict === "likely") ?? [];
  return (
    <details className="ll-plans" onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>{t("models.loras")}</summary>
      {view && loras.length === 0 && <p className="ll-hint">{t("models.no_loras")}</p>}
      {view && !view.is_whole && <p className="ll-hint">{t("models.more_loras")}</p>}
      <ul className="ll-plain-list ll-parts">
        {loras.map((lora) => (
          <li key={lora.path} title={lora.path}>
            <span className="ll-part-name">{lora.title || lora.name}</span>
            <span>{loraFacts(lora)}</span>
          </li>
        ))}
      </ul>
    </details>
  );
}
