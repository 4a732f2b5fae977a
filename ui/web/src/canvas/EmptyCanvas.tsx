import { t } from "../i18n";
import { openTemplate } from "../panels/files/fileActions";
import { TemplatePicture } from "../panels/library/TemplatePicture";
import { titled } from "../parts/format";
import { useTemplates } from "../panels/library/useTemplates";
import { Button } from "../parts/Button";
import { Words } from "../parts/Words";
import { openDialog } from "../store/page";
import type { Template } from "../types";
import { worded } from "../worded";
import { openPalette } from "./commands/freePlace";

/** To begin with: they run on any machine. */
const FIRST: readonly string[] = ["first_picture", "image_to_image", "inpaint"];

/** What a canvas without nodes says: three pictures to start from, and the other ways. */
export function EmptyCanvas() {
  const { templates, needs } = useTemplates();
  const known = templates?.filter(({ id }) => FIRST.includes(id)) ?? [];
  const running = known.filter(({ id }) => needs.find((need) => need.id === id)?.runs ?? true);
  return (
    <div className="ll-canvas-empty">
      <p className="ll-canvas-empty-title">{t("canvas.empty_title")}</p>
      <p>{t("canvas.empty_text")}</p>
      {running.length > 0 && (
        <ul className="ll-starts nowheel">
          {running.map((template) => (
            <Start key={template.id} template={template} />
          ))}
        </ul>
      )}
      <div>
        <Button
          icon="grid"
          kind={templates && running.length === 0 ? "primary" : "plain"}
          onClick={() => openDialog("templates")}
        >
          {t("canvas.open_template")}
        </Button>
        <Button icon="plus" onClick={() => openPalette()}>
          {t("canvas.add")}
        </Button>
      </div>
    </div>
  );
}

function Start({ template }: { template: Template }) {
  const { name, description, graph } = template;
  return (
    <li className="ll-card">
      <TemplatePicture template={template} />
      <button type="button" className="ll-card-open" onClick={() => void openTemplate(graph, name)}>
        {titled(name)}
      </button>
      <p className="ll-quiet">
        <Words text={worded(description)} />
      </p>
    </li>
  );
}
