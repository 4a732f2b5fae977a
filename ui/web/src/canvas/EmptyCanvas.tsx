import { urls } from "../host";
import { t } from "../i18n";
import { openUnsaved } from "../panels/files/fileActions";
import { GraphSketch } from "../panels/library/GraphSketch";
import { titled, useTemplates } from "../panels/library/useTemplates";
import { Button } from "../parts/Button";
import { Words } from "../parts/Words";
import { openDialog, usePage } from "../store/page";
import type { Template } from "../types";
import { worded } from "../worded";
import { openPalette } from "./commands/freePlace";

/** To begin with: they run on any machine. */
const FIRST: readonly string[] = ["first_picture", "image_to_image", "inpaint"];
/** What a template makes, where a file does not have its name. */
const PICTURES: Readonly<Record<string, string>> = { first_picture: "picture.png" };

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

function Start({ template: { id, name, description, graph } }: { template: Template }) {
  const file = PICTURES[id] ?? `${id}.png`;
  const hasPicture = usePage(({ me }) => me?.template_pictures.includes(file) ?? false);
  return (
    <li className="ll-card">
      <div className="ll-card-picture">
        {hasPicture ? <img src={urls.templatePicture(file)} alt="" /> : <GraphSketch file={graph} />}
      </div>
      <button type="button" className="ll-card-open" onClick={() => void openUnsaved(graph, name)}>
        {titled(name)}
      </button>
      <p className="ll-quiet">
        <Words text={worded(description)} />
      </p>
    </li>
  );
}
