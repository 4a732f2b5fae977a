import { useId, useState } from "react";
import { t } from "../i18n";
import { CopyButton } from "../parts/CopyButton";
import { useMayFetch } from "./downloadsStore";
import { usePage } from "../store/page";
import { FetchModel } from "./FetchModel";
import { EXAMPLE, HubIdField } from "./HubIdField";
import { hubModelIn, pullCommand } from "./pullCommand";

/** How to get a model: where the server's owner allows it the server fetches it, else the page writes the command. */
export function GetModel() {
  const id = useId();
  const mayFetch = useMayFetch();
  const asked = usePage(({ view, payload }) => (view === "models" && typeof payload === "string" ? payload : ""));
  if (!mayFetch) return <Command />;
  return (
    <section className="ll-sheet" aria-labelledby={id}>
      <h3 id={id}>{t("models.get")}</h3>
      <p className="ll-hint">{t("models.fetch_text")}</p>
      <FetchModel key={asked} initial={asked} />
    </section>
  );
}

function Command() {
  const id = useId();
  const [typed, setTyped] = useState("");
  const model = hubModelIn(typed);
  const isWrong = typed.trim() !== "" && !model.source;
  const command = pullCommand(model.source ? model : { source: EXAMPLE, revision: "" });
  return (
    <section className="ll-sheet" aria-labelledby={`${id}-title`}>
      <h3 id={`${id}-title`}>{t("models.get")}</h3>
      <p className="ll-hint">{t("models.get_text")}</p>
      <HubIdField id={id} typed={typed} isWrong={isWrong} onType={setTyped} />
      <div className="ll-command">
        <code>{command}</code>
        <CopyButton text={command} label={t("widgets.copy_command")} />
      </div>
      <p id={`${id}-help`} className={isWrong ? "ll-field-problem" : "ll-field-help"}>
        {t(isWrong ? "models.no_hub_id" : "models.then_run")}
      </p>
    </section>
  );
}
