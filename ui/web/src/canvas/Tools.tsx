import { useReactFlow } from "@xyflow/react";
import { t } from "../i18n";
import { hintOf, keysText } from "../panels/pageShortcuts";
import { IconButton } from "../parts/IconButton";
import { MenuButton } from "../parts/overlays/Menu";
import { canvasUi, openFind, useCanvasUi } from "./canvasUi";
import { openPalette } from "./commands/freePlace";
import { addComment, arrange, groupSelected } from "./commands/itemCommands";
import { showAll } from "./flow/showAll";

/** The strip of buttons in the canvas: everything that else needs a key or a second mouse button. */
export function Tools() {
  const flow = useReactFlow();
  const tool = useCanvasUi((ui) => ui.tool);
  const isOutlineOpen = useCanvasUi((ui) => ui.isOutlineOpen);
  const isMapOpen = useCanvasUi((ui) => ui.isMapOpen);
  return (
    <div className="ll-tools" role="toolbar" aria-label={t("canvas.tools")}>
      <IconButton
        icon="plus"
        label={t("canvas.add")}
        className="ll-tools-main"
        onClick={(event) => openPalette(below(event.currentTarget))}
      />
      <IconButton
        icon="group"
        label={t("canvas.select_tool")}
        isPressed={tool === "select"}
        onClick={() => canvasUi.setState({ tool: tool === "select" ? "pan" : "select" })}
      />
      <IconButton icon="arrange" label={t("canvas.arrange")} onClick={arrange} />
      <IconButton
        icon="list"
        label={t("canvas.outline")}
        isPressed={isOutlineOpen}
        onClick={() => canvasUi.setState({ isOutlineOpen: !isOutlineOpen })}
      />
      <IconButton icon="search" label={`${t("canvas.find")} (${hintOf("find")})`} onClick={openFind} />
      <span className="ll-tools-gap" />
      <IconButton icon="zoom-in" label={t("canvas.zoom_in")} onClick={() => void flow.zoomIn({ duration: 120 })} />
      <IconButton icon="zoom-out" label={t("canvas.zoom_out")} onClick={() => void flow.zoomOut({ duration: 120 })} />
      <IconButton icon="fit" label={t("canvas.fit")} onClick={() => showAll(200)} />
      <MenuButton
        label={t("canvas.more_tools")}
        items={[
          { label: t("canvas.add_comment"), icon: "note", onSelect: () => addComment() },
          { label: t("canvas.add_group"), icon: "group", hint: keysText("Ctrl+G"), onSelect: () => groupSelected() },
          {
            label: t(isMapOpen ? "canvas.hide_map" : "canvas.show_map"),
            icon: "map",
            onSelect: () => canvasUi.setState({ isMapOpen: !isMapOpen }),
          },
        ]}
      />
    </div>
  );
}

function below(button: HTMLElement): { x: number; y: number } {
  const rect = button.getBoundingClientRect();
  return { x: rect.right + 8, y: rect.top - 4 };
}
