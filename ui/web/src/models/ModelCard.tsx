import { useId } from "react";
import { t } from "../i18n";
import { CopyButton } from "../parts/CopyButton";
import { formatBytes } from "../parts/format";
import { Icon } from "../parts/icons";
import { Notice } from "../parts/Notice";
import type { ModelEntry } from "../types";
import { FittingLoras, Parts } from "./Parts";
import { Plans } from "./Plans";
import { worded } from "../worded";

/** One installed model. */
export function ModelCard({ model }: { model: ModelEntry }) {
  const id = useId();
  return (
    <li className="ll-sheet ll-model" aria-labelledby={id}>
      <div className="ll-model-head">
        <span className={model.problem ? "ll-model-mark ll-model-mark-off" : "ll-model-mark"}>
          <Icon name="model" size={20} />
        </span>
        <div className="ll-model-names">
          <h3 id={id}>{model.name}</h3>
          <p className="ll-hint">{factsOf(model)}</p>
        </div>
        <CopyButton text={model.name} label={t("models.copy_name", { name: model.name })} />
      </div>
      {model.problem ? <Notice kind="warning">{worded(model.problem)}</Notice> : <Usable model={model} />}
      <p className="ll-model-place" title={model.location}>
        {model.location}
      </p>
    </li>
  );
}

function factsOf({ family, num_bytes, revision, problem }: ModelEntry): string {
  const known = problem ? t("models.unsupported") : family;
  return [known, formatBytes(num_bytes), revision.slice(0, 8)].filter(Boolean).join(" · ");
}

function Usable({ model }: { model: ModelEntry }) {
  return (
    <>
      {model.does && <p className="ll-model-does">{model.does.split(", ").map(worded).join(", ")}</p>}
      {model.compared && <p className="ll-hint">{t("models.compared", { with: worded(model.compared) })}</p>}
      {model.strategies.length > 0 && (
        <div className="ll-model-strategies">
          <span className="ll-model-label">{t("models.strategies")}</span>
          <ul className="ll-chips" aria-label={t("models.strategies")}>
            {model.strategies.map((strategy) => (
              <li key={strategy} className="ll-chip">
                {strategy}
              </li>
            ))}
          </ul>
        </div>
      )}
      <Plans plans={model.plans} quantized={model.quantized} />
      <Parts parts={model.parts} />
      <FittingLoras model={model} />
    </>
  );
}
