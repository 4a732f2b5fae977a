import { setGroup, setNote } from "../../graph/edits";
import { idsOf } from "../../graph/items";
import { t } from "../../i18n";
import { IconButton } from "../../parts/IconButton";
import { edit, useEditor } from "../../store/editor";
import { paint, remove } from "../commands/itemCommands";
import { ColorPick } from "./ColorPick";
import { agreed } from "./commonInputs";
import { TextBox } from "./TextBox";

/** The selected groups and comments: their words and their colour. */
export function GroupsPanel({ keys }: { keys: readonly string[] }) {
  const groups = useEditor((state) => state.graph.groups);
  const notes = useEditor((state) => state.graph.notes);
  const chosenGroups = groups.filter((group) => idsOf(keys, "group").includes(group.id));
  const chosenNotes = notes.filter((note) => idsOf(keys, "note").includes(note.id));
  const color = agreed([...chosenGroups, ...chosenNotes].map((frame) => frame.color));
  return (
    <>
      <header className="ll-inspector-head">
        <h2>{t(chosenGroups.length ? "canvas.group" : "canvas.comment")}</h2>
        <IconButton icon="trash" label={t("canvas.remove")} onClick={() => remove(keys)} />
      </header>
      {chosenGroups.map(({ id, title }) => (
        <TextBox
          key={id}
          id={`ll-group-${id}`}
          label={t("canvas.group_title")}
          value={title}
          onSettle={(text) => edit(t("canvas.rename"), (graph) => setGroup(graph, id, { title: text }))}
        />
      ))}
      {chosenNotes.map(({ id, text }) => (
        <TextBox
          key={id}
          id={`ll-note-${id}`}
          label={t("canvas.comment")}
          value={text}
          isLong
          onSettle={(words) => edit(t("canvas.edit_comment"), (graph) => setNote(graph, id, { text: words }))}
        />
      ))}
      <ColorPick value={color} onPick={(chosen) => paint(keys, chosen)} />
    </>
  );
}
