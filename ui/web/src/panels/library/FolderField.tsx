import { useId } from "react";
import { t } from "../../i18n";
import { keepTyping } from "../../parts/keys";

interface FolderFieldProps {
  folder: string;
  folders: readonly string[];
  onChange: (folder: string) => void;
}

/** A folder of the library, one that is there or a new one. */
export function FolderField({ folder, folders, onChange }: FolderFieldProps) {
  const id = useId();
  return (
    <>
      <label htmlFor={id}>{t("panels.folder")}</label>
      <input
        id={id}
        className="ll-input"
        list={`${id}-list`}
        value={folder}
        placeholder={t("panels.folder_none")}
        maxLength={200}
        autoComplete="off"
        onChange={(event) => onChange(event.target.value)}
        onKeyDown={keepTyping}
      />
      <datalist id={`${id}-list`}>
        {folders.map((name) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </>
  );
}
