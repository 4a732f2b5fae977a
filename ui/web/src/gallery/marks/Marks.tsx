import type { ReactNode } from "react";
import { t } from "../../i18n";
import { IconButton } from "../../parts/IconButton";
import { Icon, type IconName } from "../../parts/icons";
import { Combobox } from "../../parts/overlays/Combobox";
import type { Result } from "../../types";
import { mark } from "../resultActions";
import { boardNamed, useMarks } from "./useBoards";

/** A star, tags and boards of one or more results; what all of them have can be taken away. */
export function Marks({ results }: { results: readonly Result[] }) {
  const { boards, tags } = useMarks();
  const shared = (of: (result: Result) => readonly string[]) =>
    (results[0] ? of(results[0]) : []).filter((each) => results.every((result) => of(result).includes(each)));
  const onBoards = shared((result) => result.boards);
  const withTags = shared((result) => result.tags);
  const nameOf = (id: string) => boards.find((board) => board.id === id)?.name ?? id;

  const addTag = (tag: string) => void (tag.trim() && mark(results, { add_tags: [tag] }));
  const addBoard = async (name: string) => {
    const id = name.trim() && (await boardNamed(name));
    if (id) await mark(results, { add_boards: [id] });
  };
  return (
    <div className="ll-marks">
      <Chips
        icon="tag"
        label={t("gallery.tags")}
        names={withTags.map((tag) => ({ id: tag, name: tag }))}
        onRemove={(tag) => void mark(results, { remove_tags: [tag] })}
      >
        <Combobox
          isFree
          value=""
          label={t("gallery.add_tag")}
          placeholder={t("gallery.add_tag")}
          options={tags.filter(({ tag }) => !withTags.includes(tag)).map(({ tag }) => ({ value: tag }))}
          onChange={addTag}
        />
      </Chips>
      <Chips
        icon="board"
        label={t("gallery.boards")}
        names={onBoards.map((id) => ({ id, name: nameOf(id) }))}
        onRemove={(id) => void mark(results, { remove_boards: [id] })}
      >
        <Combobox
          isFree
          value=""
          label={t("gallery.add_board")}
          placeholder={t("gallery.add_board")}
          options={boards.filter(({ id }) => !onBoards.includes(id)).map(({ name }) => ({ value: name }))}
          onChange={(name) => void addBoard(name)}
        />
      </Chips>
    </div>
  );
}

interface ChipsProps {
  icon: IconName;
  label: string;
  names: readonly { id: string; name: string }[];
  onRemove: (id: string) => void;
  children: ReactNode;
}

function Chips({ icon, label, names, onRemove, children }: ChipsProps) {
  return (
    <div className="ll-mark-chips" role="group" aria-label={label}>
      <Icon name={icon} />
      {names.map(({ id, name }) => (
        <span key={id} className="ll-mark-chip">
          {name}
          <IconButton icon="close" size={12} label={t("gallery.take_away", { name })} onClick={() => onRemove(id)} />
        </span>
      ))}
      {children}
    </div>
  );
}

/** Gives a star, or takes it. */
export function Star({ results, className = "" }: { results: readonly Result[]; className?: string }) {
  const isStarred = results.length > 0 && results.every((result) => result.is_starred);
  return (
    <IconButton
      icon="star"
      className={`ll-star ${className}`}
      label={t("gallery.star")}
      isPressed={isStarred}
      disabled={results.length === 0}
      onClick={() => void mark(results, { star: !isStarred })}
    />
  );
}
