import { t } from "../../i18n";
import { keysText } from "../../panels/pageShortcuts";
import { Menu } from "../../parts/overlays/Menu";
import { closePopup, type Popup } from "../canvasUi";
import { colorItems, menuItems } from "./menuItems";

/** What can be done with the thing that was clicked. */
export function ContextMenu({ popup }: { popup: Extract<Popup, { kind: "menu" | "colors" }> }) {
  const items = popup.kind === "menu" ? menuItems(popup.target, popup.flow) : colorItems(popup.keys);
  const label = t(popup.kind === "menu" ? "canvas.menu" : "canvas.color");
  const shown = items.map((item) => (item === "-" || !item.hint ? item : { ...item, hint: keysText(item.hint) }));
  return <Menu label={label} items={shown} at={popup} onClose={closePopup} />;
}
