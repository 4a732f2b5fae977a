import { useState, type FormEvent } from "react";
import { host, sentence, urls } from "../../host";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { moment } from "../../parts/format";
import { MenuButton, type MenuItem } from "../../parts/overlays/Menu";
import { useEditor } from "../../store/editor";
import { openDialog } from "../../store/page";
import type { Workflow } from "../../types";
import { openWorkflow, said } from "../files/fileActions";
import { FolderField } from "./FolderField";
import { WorkflowPicture } from "./WorkflowPicture";

interface LibraryCardProps {
  workflow: Workflow;
  folders: readonly string[];
  onDelete: (workflow: Workflow) => void;
  /** The list is to be read anew. */
  onChange: () => void;
}

/** One workflow: its picture, its facts, and what can be done with it. */
export function LibraryCard({ workflow, folders, onDelete, onChange }: LibraryCardProps) {
  const { id, name, folder, summary } = workflow;
  const isOpen = useEditor((state) => state.workflow?.id === id);
  const [asking, setAsking] = useState<"name" | "folder" | null>(null);
  const items: MenuItem[] = [
    { label: t("panels.rename"), icon: "edit", onSelect: () => setAsking("name") },
    { label: t("panels.move_to"), icon: "folder", onSelect: () => setAsking("folder") },
    {
      label: t("panels.duplicate"),
      icon: "duplicate",
      onSelect: () => void said(() => host.duplicateWorkflow(id).then(onChange)),
    },
    { label: t("panels.versions"), icon: "history", onSelect: () => openDialog("versions", { id, name }) },
    { label: t("panels.to_disk"), icon: "download", onSelect: () => open(urls.workflowFile(id), "_self") },
    "-",
    { label: t("panels.delete"), icon: "trash", isDanger: true, onSelect: () => onDelete(workflow) },
  ];
  return (
    <li className={`ll-card ${isOpen ? "ll-card-current" : ""}`} data-testid={`workflow-${id}`}>
      <WorkflowPicture workflow={workflow} />
      {asking ? (
        <Ask
          what={asking}
          value={asking === "name" ? name : folder}
          folders={folders}
          onEnd={(isChanged) => {
            setAsking(null);
            if (isChanged) onChange();
          }}
          change={(value) => host.changeWorkflow(id, { [asking]: value })}
        />
      ) : (
        <>
          <div className="ll-card-head">
            <button type="button" className="ll-card-open" onClick={() => void openWorkflow(id)}>
              {name}
            </button>
            <MenuButton label={t("panels.workflow_menu", { name })} items={items} className="ll-card-menu" />
          </div>
          <p className="ll-quiet">{factsOf(workflow)}</p>
          {summary && <p className="ll-card-text">{summary}</p>}
        </>
      )}
    </li>
  );
}

interface AskProps {
  what: "name" | "folder";
  value: string;
  folders: readonly string[];
  change: (value: string) => Promise<unknown>;
  onEnd: (isChanged: boolean) => void;
}

/** A new name, or another folder. */
function Ask({ what, value, folders, change, onEnd }: AskProps) {
  const [typed, setTyped] = useState(value);
  const [error, setError] = useState("");
  const submit = async (event: FormEvent) => {
    event.preventDefault();
    try {
      await change(typed.trim());
      onEnd(true);
    } catch (cause) {
      setError(sentence(cause));
    }
  };
  return (
    <form className="ll-card-ask" onSubmit={(event) => void submit(event)}>
      {what === "name" ? (
        <input
          className="ll-input"
          aria-label={t("panels.name")}
          value={typed}
          autoFocus
          maxLength={200}
          onFocus={(event) => event.target.select()}
          onChange={(event) => setTyped(event.target.value)}
        />
      ) : (
        <FolderField folder={typed} folders={folders} onChange={setTyped} />
      )}
      {error && <p className="ll-error-text">{error}</p>}
      <div>
        <Button kind="ghost" onClick={() => onEnd(false)}>
          {t("panels.cancel_dialog")}
        </Button>
        <Button type="submit">{t("panels.apply")}</Button>
      </div>
    </form>
  );
}

function factsOf({ num_nodes: count, updated, folder, version }: Workflow): string {
  const nodes = t(count === 1 ? "panels.nodes_one" : "panels.nodes_other", { count });
  return [folder, nodes, t("panels.version", { version }), moment(updated)].filter(Boolean).join(", ");
}
