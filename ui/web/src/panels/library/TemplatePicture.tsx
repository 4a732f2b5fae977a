import { urls } from "../../host";
import { usePage } from "../../store/page";
import type { Template } from "../../types";
import { GraphSketch } from "./GraphSketch";

/** What a template makes, where a file does not have its name. */
const PICTURES: Readonly<Record<string, string>> = { first_picture: "picture.png" };

/** What a template makes; one that ships no picture shows its boxes and wires. */
export function TemplatePicture({ template: { id, graph } }: { template: Template }) {
  const file = PICTURES[id] ?? `${id}.png`;
  const hasPicture = usePage(({ me }) => me?.template_files.includes(file) ?? false);
  return (
    <div className="ll-card-picture">
      {hasPicture ? <img src={urls.templateFile(file)} alt="" /> : <GraphSketch file={graph} />}
    </div>
  );
}
