import { t } from "../../i18n";
import { keysText } from "../../panels/pageShortcuts";
import { Menu, type MenuItem } from "../../parts/overlays/Menu";
import { closePopup, type Popup } from "../canvasUi";
import { alignItems, colorItems, copyAsItems, menuItems } from "./menuItems";

type MenuPopup = Extract<Popup, { kind: "menu" | "colors" | "align" | "copy_as" }>;

/** What can be done with the thing that was clicked. */
export function ContextMenu({ popup }: { popup: MenuPopup }) {
  const { label, items } = contentOf(popup);
  const shown = items.map((item) => (item === "-" || !item.hint ? item : { ...item, hint: keysText(item.hint) }));
  return <Menu label={label} items={shown} at={popup} onClose={closePopup} />;
}

function contentOf(popup: MenuPopup): { label: string; items: MenuItem[] } {
  switch (popup.kind) {
    case "menu":
      return { label: t("canvas.menu"), items: menuItems(popup.target, popup.flow) };
    case "colors":
      return { label: t("canvas.color"), items: colorItems(popup.keys) };
    case "align":
      return { label: t("canvas.align"), items: alignItems() };
    case "copy_as":
      return { label: t("canvas.copy_as"), items: copyAsItems(popup.names) };
  }
}
