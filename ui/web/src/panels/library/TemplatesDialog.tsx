import { t } from "../../i18n";
import { Empty } from "../../parts/Empty";
import { Notice } from "../../parts/Notice";
import { titled } from "../../parts/format";
import { Dialog } from "../../parts/overlays/Dialog";
import { Spinner } from "../../parts/Spinner";
import { Words } from "../../parts/Words";
import { closeDialog } from "../../store/page";
import { openTemplate } from "../files/fileActions";
import { Needed } from "./Needed";
import { TemplatePicture } from "./TemplatePicture";
import { useTemplates } from "./useTemplates";
import { worded } from "../../worded";

/** Workflows to begin with. */
export function TemplatesDialog() {
  const { templates, needs, error } = useTemplates();
  return (
    <Dialog
      title={t("panels.templates_title")}
      size="large"
      description={t("panels.templates_text")}
      onClose={closeDialog}
    >
      {error && <Notice kind="error">{error}</Notice>}
      {!templates && !error && <Spinner label={t("panels.reading")} isVisible />}
      {templates?.length === 0 && (
        <Empty icon="grid" title={t("panels.no_templates")} text={t("panels.no_templates_text")} />
      )}
      <ul className="ll-cards">
        {templates?.map((template) => (
          <li key={template.id} className="ll-card">
            <TemplatePicture template={template} />
            <button
              type="button"
              className="ll-card-open"
              onClick={() => void openTemplate(template.graph, template.name)}
            >
              {titled(template.name)}
            </button>
            <p className="ll-quiet">
              <Words text={worded(template.description)} />
            </p>
            <Needed needs={needs.find(({ id }) => id === template.id)} />
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
