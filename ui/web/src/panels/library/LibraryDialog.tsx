import { useState } from "react";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { Empty } from "../../parts/Empty";
import { keepTyping } from "../../parts/keys";
import { Notice } from "../../parts/Notice";
import { Dialog } from "../../parts/overlays/Dialog";
import { Spinner } from "../../parts/Spinner";
import { editorStore } from "../../store/editor";
import { closeDialog, openDialog } from "../../store/page";
import type { Workflow } from "../../types";
import { pickFile } from "../files/openFile";
import { DraftList } from "./DraftList";
import { found, foldersOf } from "./folders";
import { deleteLater, undoDelete } from "./lateDeletes";
import { LibraryCard } from "./LibraryCard";
import { useLibrary, useMatching } from "./useLibrary";

/** What the list shows: a folder ("" for those in none), all of them, or the drafts. */
type Place = { kind: "all" } | { kind: "drafts" } | { kind: "folder"; name: string };

/** The user's saved workflows: to open, rename, move, duplicate, delete. */
export function LibraryDialog() {
  const { workflows, drafts, error, reload } = useLibrary();
  const [place, setPlace] = useState<Place>({ kind: "all" });
  const [search, setSearch] = useState("");
  const [deleted, setDeleted] = useState<Workflow | null>(null);
  const matching = useMatching(search);
  const others = drafts.filter((draft) => draft.key !== editorStore.getState().draftKey);
  const folders = foldersOf(workflows ?? []);
  const shown = found(workflows ?? [], place.kind === "folder" ? place.name : null, search, matching);

  const remove = (workflow: Workflow) => {
    deleteLater(workflow.id);
    setDeleted(workflow);
  };
  const undo = () => {
    if (deleted) undoDelete(deleted.id);
    setDeleted(null);
  };
  return (
    <Dialog
      title={t("panels.library")}
      size="large"
      onClose={closeDialog}
      footer={
        <>
          {deleted && (
            <span className="ll-deleted" role="status">
              {t("panels.deleted", { name: deleted.name })}
              <Button kind="ghost" icon="undo" onClick={undo}>
                {t("panels.undo")}
              </Button>
            </span>
          )}
          <Button icon="grid" onClick={() => openDialog("templates")}>
            {t("panels.templates")}
          </Button>
          <Button icon="upload" onClick={pickFile}>
            {t("panels.open_file")}
          </Button>
        </>
      }
    >
      {error && <Notice kind="error">{error}</Notice>}
      {!workflows && !error && <Spinner label={t("panels.reading")} isVisible />}
      {workflows && (
        <div className="ll-library">
          <Places place={place} folders={folders} numDrafts={others.length} onPlace={setPlace} />
          <div className="ll-library-list">
            {place.kind === "drafts" ? (
              <DraftList drafts={others} onChange={reload} />
            ) : (
              <>
                <input
                  type="search"
                  className="ll-input"
                  aria-label={t("panels.search")}
                  placeholder={t("panels.search")}
                  maxLength={200}
                  value={search}
                  onChange={(event) => setSearch(event.target.value)}
                  onKeyDown={keepTyping}
                />
                {shown.length === 0 && <Nothing isSearching={search !== ""} />}
                <ul className="ll-cards">
                  {shown.map((workflow) => (
                    <LibraryCard
                      key={workflow.id}
                      workflow={workflow}
                      folders={folders}
                      onDelete={remove}
                      onChange={reload}
                    />
                  ))}
                </ul>
              </>
            )}
          </div>
        </div>
      )}
    </Dialog>
  );
}

interface PlacesProps {
  place: Place;
  folders: readonly string[];
  numDrafts: number;
  onPlace: (place: Place) => void;
}

function Places({ place, folders, numDrafts, onPlace }: PlacesProps) {
  return (
    <nav className="ll-folders" aria-label={t("panels.folders")}>
      <Button
        kind="ghost"
        icon="list"
        aria-current={place.kind === "all" || undefined}
        onClick={() => onPlace({ kind: "all" })}
      >
        {t("panels.folder_all")}
      </Button>
      {folders.map((name) => (
        <Button
          key={name}
          kind="ghost"
          icon="folder"
          aria-current={(place.kind === "folder" && place.name === name) || undefined}
          onClick={() => onPlace({ kind: "folder", name })}
        >
          {name}
        </Button>
      ))}
      {numDrafts > 0 && (
        <Button
          kind="ghost"
          icon="edit"
          aria-current={place.kind === "drafts" || undefined}
          onClick={() => onPlace({ kind: "drafts" })}
        >
          {t("panels.drafts", { count: numDrafts })}
        </Button>
      )}
    </nav>
  );
}

function Nothing({ isSearching }: { isSearching: boolean }) {
  return isSearching ? (
    <Empty icon="search" title={t("panels.nothing_found")} text={t("panels.nothing_found_text")} />
  ) : (
    <Empty icon="folder" title={t("panels.library_empty")} text={t("panels.library_empty_text")} />
  );
}
