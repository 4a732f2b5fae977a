import { t } from "../../i18n";
import { Icon } from "../../parts/icons";
import type { TemplateNeeds } from "../../types";
import { worded } from "../../worded";

/** Whether a ready workflow runs on this server, or what it lacks; nothing until that is known. */
export function Needed({ needs }: { needs: TemplateNeeds | undefined }) {
  if (!needs) return null;
  const { runs, model, why, fit } = needs;
  const needed = fit ? `${t("panels.needs_model", { model })}; ${worded(fit)}` : t("panels.needs_model", { model });
  return (
    <p className={`ll-needed ${runs ? "ll-needed-runs" : ""}`}>
      <Icon name={runs ? "check" : model ? "model" : "warning"} size={14} />
      {runs ? t("panels.runs_here") : model ? needed : worded(why)}
    </p>
  );
}
