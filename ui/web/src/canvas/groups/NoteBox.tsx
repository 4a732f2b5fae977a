import { NodeResizeControl, type NodeProps } from "@xyflow/react";
import { memo, useLayoutEffect, useRef, useState } from "react";
import { setNote } from "../../graph/edits";
import { t } from "../../i18n";
import { keepTyping } from "../../parts/keys";
import { edit } from "../../store/editor";
import { canvasUi, useCanvasUi } from "../canvasUi";
import type { NoteNode } from "../flow/flowNodes";
import { colorClass } from "../look";

/** A comment on the canvas. */
export const NoteBox = memo(Box, (a, b) => a.data === b.data && a.selected === b.selected);

function Box({ id, data: { note }, selected }: NodeProps<NoteNode>) {
  const [draft, setDraft] = useState<string | null>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const isNew = useCanvasUi((ui) => ui.renaming === id);
  useLayoutEffect(() => {
    if (!isNew) return;
    field.current?.focus({ preventScroll: true });
    canvasUi.setState({ renaming: "" });
  }, [isNew]);
  const settle = () => {
    if (draft !== null && draft !== note.text) {
      edit(t("canvas.edit_comment"), (graph) => setNote(graph, note.id, { text: draft }));
    }
    setDraft(null);
  };
  return (
    <div className={`ll-note ${selected ? "ll-note-selected" : ""} ${colorClass(note.color || "yellow")}`}>
      <div className="ll-note-grip" aria-hidden="true" />
      <textarea
        ref={field}
        className="nodrag nowheel"
        aria-label={t("canvas.comment")}
        placeholder={t("canvas.comment_placeholder")}
        value={draft ?? note.text}
        onChange={(event) => setDraft(event.target.value)}
        onBlur={settle}
        onKeyDown={keepTyping}
      />
      {selected && <NodeResizeControl className="ll-resize" position="bottom-right" minWidth={120} minHeight={64} />}
    </div>
  );
}
