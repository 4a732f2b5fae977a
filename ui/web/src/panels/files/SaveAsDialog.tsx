import { useEffect, useId, useState, type FormEvent } from "react";
import { host, sentence } from "../../host";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { Notice } from "../../parts/Notice";
import { Dialog } from "../../parts/overlays/Dialog";
import { editorStore, useEditor } from "../../store/editor";
import { closeDialog } from "../../store/page";
import { FolderField } from "../library/FolderField";
import { foldersOf } from "../library/folders";
import { saveAs, type SaveAsked } from "./fileActions";

/** Save as a new workflow, under a name and in a folder. */
export function SaveAsDialog({ reason = "", answer }: Partial<SaveAsked>) {
  const id = useId();
  const isCopy = useEditor((state) => state.workflow !== null);
  const [name, setName] = useState(() => nameOfCopy(editorStore.getState().whole.name, isCopy));
  const [folder, setFolder] = useState("");
  const [folders, setFolders] = useState<string[]>([]);
  const [error, setError] = useState(reason);
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    host.workflows().then(
      (all) => setFolders(foldersOf(all)),
      (cause: unknown) => setError(sentence(cause)),
    );
  }, []);

  const close = (isSaved: boolean) => {
    closeDialog();
    answer?.(isSaved);
  };
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    if (!name.trim()) return setError(t("panels.name_missing"));
    setBusy(true);
    try {
      await saveAs(name.trim(), folder.trim());
      close(true);
    } catch (cause) {
      setError(sentence(cause));
      setBusy(false);
    }
  };
  return (
    <Dialog
      title={t("panels.save_as_title")}
      size="small"
      onClose={() => close(false)}
      footer={
        <>
          <Button kind="ghost" onClick={() => close(false)}>
            {t("panels.cancel_dialog")}
          </Button>
          <Button kind="primary" icon="save" type="submit" form={id} isBusy={isBusy}>
            {t("panels.save")}
          </Button>
        </>
      }
    >
      <form id={id} className="ll-form" onSubmit={(event) => void submit(event)}>
        {error && <Notice kind="error">{error}</Notice>}
        <label htmlFor={`${id}-name`}>{t("panels.name")}</label>
        <input
          id={`${id}-name`}
          className="ll-input"
          value={name}
          maxLength={100}
          autoFocus
          onFocus={(event) => event.target.select()}
          onChange={(event) => setName(event.target.value)}
        />
        <FolderField folder={folder} folders={folders} onChange={setFolder} />
      </form>
    </Dialog>
  );
}

function nameOfCopy(name: string, isCopy: boolean): string {
  return isCopy ? t("panels.copy_of", { name }) : name;
}
