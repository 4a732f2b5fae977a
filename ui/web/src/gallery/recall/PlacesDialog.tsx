import { useState } from "react";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { Dialog } from "../../parts/overlays/Dialog";
import { closeDialog } from "../../store/page";
import { write, type PlacesAsked } from "./recallActions";

/** Several nodes take what is recalled: people say which. */
export function PlacesDialog({ kind, value, places }: PlacesAsked) {
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set([places[0]?.node ?? ""]));
  const toggle = (node: string) => {
    const next = new Set(chosen);
    if (!next.delete(node)) next.add(node);
    setChosen(next);
  };
  const apply = () => {
    closeDialog();
    write({ kind, value, places: places.filter(({ node }) => chosen.has(node)) });
  };
  return (
    <Dialog
      title={t(`gallery.recall_${kind}`)}
      size="small"
      description={t("gallery.which_nodes")}
      onClose={closeDialog}
      footer={
        <>
          <Button kind="ghost" onClick={closeDialog}>
            {t("widgets.close")}
          </Button>
          <Button kind="primary" disabled={chosen.size === 0} onClick={apply}>
            {t("gallery.use_there")}
          </Button>
        </>
      }
    >
      <ul className="ll-places">
        {places.map(({ node, title }) => (
          <li key={node}>
            <label>
              <input type="checkbox" checked={chosen.has(node)} onChange={() => toggle(node)} />
              <span>{title}</span> <code>{node}</code>
            </label>
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
