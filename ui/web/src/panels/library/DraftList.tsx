import { host } from "../../host";
import { t } from "../../i18n";
import { moment } from "../../parts/format";
import { IconButton } from "../../parts/IconButton";
import type { DraftEntry } from "../../types";
import { openDraft, said } from "../files/fileActions";

interface DraftListProps {
  drafts: readonly DraftEntry[];
  onChange: () => void;
}

/** Work that was never saved, from other tabs and other days. */
export function DraftList({ drafts, onChange }: DraftListProps) {
  const remove = (key: string) =>
    said(async () => {
      await host.deleteDraft(key);
      onChange();
    });
  return (
    <ul className="ll-versions">
      {drafts.map((draft) => (
        <li key={draft.key} className="ll-version">
          <button type="button" className="ll-link ll-version-name" onClick={() => void openDraft(draft)}>
            {draft.name}
          </button>
          <span className="ll-quiet">{moment(draft.updated)}</span>
          <IconButton
            icon="trash"
            label={t("panels.draft_delete", { name: draft.name })}
            onClick={() => void remove(draft.key)}
          />
        </li>
      ))}
    </ul>
  );
}
