import { useId, useState } from "react";
import { t } from "../i18n";
import { CopyButton } from "../parts/CopyButton";
import { useMayFetch } from "./downloadsStore";
import { usePage } from "../store/page";
import { FetchModel } from "./FetchModel";
import { hubIdIn, pullCommand } from "./pullCommand";

const EXAMPLE = "Qwen/Qwen-Image";

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
  const model = hubIdIn(typed);
  const command = pullCommand(model || EXAMPLE);
  return (
    <section className="ll-sheet" aria-labelledby={`${id}-title`}>
      <h3 id={`${id}-title`}>{t("models.get")}</h3>
      <p className="ll-hint">{t("models.get_text")}</p>
      <label htmlFor={id} className="ll-field-label">
        {t("models.hub_id")}
      </label>
      <input
        id={id}
        type="text"
        className="ll-input"
        autoComplete="off"
        spellCheck={false}
        placeholder={EXAMPLE}
        value={typed}
        aria-describedby={`${id}-help`}
        aria-invalid={(typed.trim() !== "" && !model) || undefined}
        onChange={(event) => setTyped(event.target.value)}
      />
      <div className="ll-command">
        <code>{command}</code>
        <CopyButton text={command} label={t("widgets.copy_command")} />
      </div>
      <p id={`${id}-help`} className={typed.trim() && !model ? "ll-field-problem" : "ll-field-help"}>
        {t(typed.trim() && !model ? "models.no_hub_id" : "models.then_run")}
      </p>
    </section>
  );
}
