import { urls } from "../host";
import { t } from "../i18n";
import { titled } from "../panels/library/useTemplates";
import { Combobox, type Option } from "../parts/overlays/Combobox";
import { Words } from "../parts/Words";
import type { Choice } from "./useChoices";

interface ChooserProps {
  choices: readonly Choice[];
  chosen: Choice;
  /** What the chosen workflow says of itself, whole. */
  about: string;
  onChoose: (key: string) => void;
}

/** Which workflow the form is made from. */
export function Chooser({ choices, chosen, about, onChoose }: ChooserProps) {
  return (
    <header className="ll-simple-head">
      <div className="ll-simple-chooser">
        <label htmlFor="ll-simple-workflow" className="ll-field-label">
          {t("simple.workflow")}
        </label>
        <Combobox
          id="ll-simple-workflow"
          value={chosen.key}
          options={choices.map(optionOf)}
          placeholder={t("simple.search")}
          onChange={onChoose}
        />
      </div>
      {about && (
        <p className="ll-simple-about">
          <Words text={about} />
        </p>
      )}
    </header>
  );
}

function optionOf({ key, name, description, folder, template, workflow, canvas }: Choice): Option {
  const place = canvas ? t("simple.on_canvas") : template ? t("simple.template") : folder || t("simple.own");
  return {
    value: key,
    label: titled(name),
    detail: [place, description].filter(Boolean).join(" · "),
    picture: workflow?.has_thumb ? urls.workflowThumb(workflow.id, workflow.updated) : undefined,
  };
}
