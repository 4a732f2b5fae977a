import { LANGUAGES, t, type Language } from "../i18n";
import { IconButton } from "../parts/IconButton";
import { MenuButton } from "../parts/overlays/Menu";
import { redo, undo, undoLabel, useEditor } from "../store/editor";
import { openDialog, setLanguage, usePage } from "../store/page";
import { useSettings } from "../store/settings";
import { FileMenu } from "./files/FileMenu";
import { TabMenu } from "./files/TabBar";
import { WorkflowName } from "./files/WorkflowName";
import { hintOf } from "./pageShortcuts";
import { setSideOpen, usePanels } from "./panelState";
import { RunControls } from "./runs/RunControls";

/** The row above the canvas: the workflow, its edits, its runs. */
export function Toolbar() {
  const canUndo = useEditor((state) => state.canUndo);
  const undone = useEditor(undoLabel);
  const canRedo = useEditor((state) => state.canRedo);
  const isSideOpen = usePanels((state) => state.isSideOpen);
  useSettings((state) => state.keys); // which the hints show
  return (
    <div className="ll-toolbar" role="group" aria-label={t("panels.toolbar")}>
      <FileMenu />
      <WorkflowName />
      <TabMenu />
      <div className="ll-toolbar-group">
        <IconButton
          icon="undo"
          label={undone ? t("panels.undo_edit", { edit: undone }) : t("panels.undo")}
          disabled={!canUndo}
          onClick={undo}
        />
        <IconButton icon="redo" label={t("panels.redo")} disabled={!canRedo} onClick={redo} />
      </div>
      <span className="ll-toolbar-gap" />
      <RunControls />
      <div className="ll-toolbar-group">
        <LanguageMenu />
        <IconButton
          icon="settings"
          label={t("settings.title")}
          className="ll-wide-only"
          onClick={() => openDialog("settings")}
        />
        <IconButton
          icon="keyboard"
          label={`${t("panels.shortcuts")} (${hintOf("shortcuts")})`}
          className="ll-wide-only"
          onClick={() => openDialog("shortcuts")}
        />
        <IconButton
          icon={isSideOpen ? "chevron-right" : "chevron-left"}
          label={t(isSideOpen ? "panels.hide_side" : "panels.show_side")}
          aria-expanded={isSideOpen}
          className="ll-wide-only"
          onClick={() => setSideOpen(!isSideOpen)}
        />
      </div>
    </div>
  );
}

function LanguageMenu() {
  const current = usePage((state) => state.language);
  const items = Object.entries(LANGUAGES).map(([code, name]) => ({
    label: name,
    icon: code === current ? ("check" as const) : undefined,
    onSelect: () => setLanguage(code as Language),
  }));
  return <MenuButton icon="language" label={t("panels.language")} items={items} className="ll-wide-only" />;
}
