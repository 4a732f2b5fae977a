import { t, LANGUAGES, type Language } from "../../i18n";
import { MenuButton, type MenuItem } from "../../parts/overlays/Menu";
import { useEditor } from "../../store/editor";
import { openDialog, setLanguage, usePage } from "../../store/page";
import { logOut } from "../../store/start";
import { hintOf } from "../pageShortcuts";
import { useIsNarrow } from "../useIsNarrow";
import { duplicate, exportComfy, newWorkflow, save, saveToDisk } from "./fileActions";
import { pickFile } from "./openFile";
import { close } from "./tabActions";

/** Everything about the workflow as a file, and logging out. On a narrow page also what the toolbar has no room for. */
export function FileMenu() {
  const isSaved = useEditor((state) => state.workflow !== null);
  const isEmpty = useEditor((state) => Object.keys(state.whole.nodes).length === 0);
  const language = usePage((state) => state.language);
  const me = usePage((state) => state.me);
  const isNarrow = useIsNarrow();
  const items: MenuItem[] = [
    { label: t("panels.new"), icon: "file", hint: hintOf("new"), onSelect: () => void newWorkflow() },
    { label: t("panels.templates"), icon: "grid", onSelect: () => openDialog("templates") },
    { label: t("panels.open"), icon: "folder", hint: hintOf("open"), onSelect: () => openDialog("library") },
    { label: t("panels.open_file"), icon: "upload", onSelect: pickFile },
    { label: t("panels.close"), icon: "close", hint: hintOf("close"), onSelect: () => void close() },
    "-",
    { label: t("panels.save"), icon: "save", hint: hintOf("save"), onSelect: () => void save() },
    { label: t("panels.save_as"), hint: hintOf("saveAs"), onSelect: () => openDialog("saveAs") },
    { label: t("panels.versions"), icon: "history", isDisabled: !isSaved, onSelect: () => openDialog("versions") },
    { label: t("panels.duplicate"), icon: "duplicate", isDisabled: !isSaved, onSelect: () => void duplicate() },
    { label: t("panels.share"), icon: "share", isDisabled: !isSaved, onSelect: () => openDialog("share") },
    { label: t("panels.app"), icon: "link", onSelect: () => openDialog("app") },
    "-",
    { label: t("panels.to_disk"), icon: "download", isDisabled: isEmpty, onSelect: () => void saveToDisk() },
    { label: t("panels.to_comfy"), isDisabled: isEmpty, onSelect: () => void exportComfy() },
    "-",
    { label: t("panels.kept_title"), icon: "save", onSelect: () => openDialog("kept") },
  ];
  if (isNarrow) {
    items.push("-", { label: t("panels.shortcuts"), icon: "keyboard", onSelect: () => openDialog("shortcuts") });
    items.push({ label: t("settings.title"), icon: "settings", onSelect: () => openDialog("settings") });
    for (const [code, name] of Object.entries(LANGUAGES)) {
      if (code !== language)
        items.push({ label: name, icon: "language", onSelect: () => setLanguage(code as Language) });
    }
  }
  if (me?.has_auth) {
    items.push("-", { label: t("panels.log_out", { user: me.user }), icon: "lock", onSelect: () => void logOut() });
  }
  return <MenuButton icon="file" label={t("panels.file_menu")} items={items} hasText={!isNarrow} />;
}
