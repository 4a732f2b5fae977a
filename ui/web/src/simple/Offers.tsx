import { expose } from "../canvas/commands/valueCommands";
import { titleOf } from "../graph/catalog";
import { t } from "../i18n";
import { Button } from "../parts/Button";
import { spoken } from "../parts/format";
import { useEditor } from "../store/editor";
import { offersOf } from "./canvasChoice";

/** Prompts and seeds of the canvas that are not in the form: a button each makes them a param, and so a field. */
export function Offers() {
  const graph = useEditor((state) => state.whole);
  const catalog = useEditor((state) => state.catalog);
  const offers = offersOf(graph, catalog);
  if (offers.length === 0) return null;
  return (
    <div className="ll-simple-offers" role="group" aria-label={t("simple.offers")}>
      <span className="ll-hint">{t("simple.offers")}</span>
      {offers.map(({ node, spec }) => (
        <Button key={`${node}.${spec.name}`} kind="ghost" icon="plus" onClick={() => expose(node, spec)}>
          {`${titleOf(graph, catalog, node)}: ${spoken(spec.name)}`}
        </Button>
      ))}
    </div>
  );
}
