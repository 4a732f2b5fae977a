import { useState, type KeyboardEvent } from "react";
import { describe } from "../../graph/edits";
import { t } from "../../i18n";
import { keepTyping } from "../../parts/keys";
import { editWhole, useEditor } from "../../store/editor";

const MAX_LENGTH = 100;

/** The workflow's name, to be changed in place, with a dot while it has changes that are not saved. */
export function WorkflowName() {
  const name = useEditor((state) => state.whole.name);
  const isDirty = useEditor((state) => state.isDirty);
  const [typed, setTyped] = useState<string | null>(null);

  const settle = () => {
    const next = typed?.trim();
    setTyped(null);
    if (next && next !== name) editWhole(t("panels.edit_name"), (graph) => describe(graph, { name: next }));
  };
  const onKeyDown = (event: KeyboardEvent<HTMLInputElement>) => {
    keepTyping(event);
    // A shortcut such as Ctrl+S means the name as it is typed.
    if (event.ctrlKey || event.metaKey) settle();
    if (event.key === "Escape") setTyped(null);
    if (event.key === "Enter" && !event.ctrlKey && !event.metaKey) event.currentTarget.blur();
  };
  return (
    <div className="ll-workflow-name">
      <input
        type="text"
        aria-label={t("panels.name")}
        value={typed ?? name}
        maxLength={MAX_LENGTH}
        spellCheck={false}
        onChange={(event) => setTyped(event.target.value)}
        onBlur={settle}
        onKeyDown={onKeyDown}
      />
      {isDirty && <span className="ll-dirty" role="img" aria-label={t("panels.dirty")} title={t("panels.dirty")} />}
    </div>
  );
}
