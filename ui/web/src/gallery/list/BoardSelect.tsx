import { useId, useRef, useState, type FormEvent } from "react";
import { host, urls } from "../../host";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { IconButton } from "../../parts/IconButton";
import { Icon } from "../../parts/icons";
import { Popover } from "../../parts/overlays/Popover";
import { confirm } from "../../store/page";
import { gallery, useGallery } from "../galleryState";
import { useBoardWork, useMarks } from "../marks/useBoards";

/** Shows one board instead of all results; boards are made, renamed and deleted here. */
export function BoardSelect() {
  const { boards } = useMarks();
  const board = useGallery((state) => state.filter.board);
  const [isOpen, setOpen] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const { setFilter } = gallery.getState();
  return (
    <>
      <select
        className="ll-input ll-gallery-workflow"
        aria-label={t("gallery.board")}
        value={board}
        onChange={(event) => setFilter({ board: event.target.value })}
      >
        <option value="">{t("gallery.all_boards")}</option>
        {boards.map(({ id, name, count }) => (
          <option key={id} value={id}>
            {t("gallery.board_count", { name, count })}
          </option>
        ))}
      </select>
      <IconButton
        ref={button}
        icon="board"
        label={t("gallery.edit_boards")}
        aria-haspopup="dialog"
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
      />
      {isOpen && (
        <Popover anchor={button} onDismiss={() => setOpen(false)} className="ll-boards">
          <BoardList board={board} />
        </Popover>
      )}
    </>
  );
}

function BoardList({ board }: { board: string }) {
  const { boards } = useMarks();
  const { isBusy, work } = useBoardWork();
  const [name, setName] = useState("");
  const id = useId();
  const { setFilter } = gallery.getState();
  const create = async (event: FormEvent) => {
    event.preventDefault();
    if (name.trim() && (await work(() => host.createBoard(name)))) setName("");
  };
  const remove = async (of: { id: string; name: string }) => {
    if (!(await confirm(t("gallery.confirm_delete_board", { name: of.name })))) return;
    if ((await work(() => host.deleteBoard(of.id))) && board === of.id) setFilter({ board: "" });
  };
  return (
    <div role="dialog" aria-label={t("gallery.edit_boards")}>
      <ul className="ll-board-list">
        {boards.map((each) => (
          <li key={`${each.id} ${each.name}`}>
            {each.cover ? (
              <img className="ll-board-cover" src={urls.thumb(each.cover)} alt="" loading="lazy" />
            ) : (
              <span className="ll-board-cover">
                <Icon name="board" size={16} />
              </span>
            )}
            <input
              className="ll-input"
              aria-label={t("gallery.board_name", { name: each.name })}
              defaultValue={each.name}
              onBlur={(event) => {
                const typed = event.target.value.trim();
                if (typed && typed !== each.name) void work(() => host.renameBoard(each.id, typed));
              }}
            />
            <IconButton
              icon="trash"
              label={t("gallery.delete_board", { name: each.name })}
              onClick={() => void remove(each)}
            />
          </li>
        ))}
      </ul>
      <form className="ll-board-new" onSubmit={(event) => void create(event)}>
        <label htmlFor={id} className="ll-hidden">
          {t("gallery.new_board")}
        </label>
        <input
          id={id}
          className="ll-input"
          value={name}
          placeholder={t("gallery.new_board")}
          onChange={(event) => setName(event.target.value)}
        />
        <Button type="submit" icon="plus" isBusy={isBusy} disabled={!name.trim()}>
          {t("gallery.create_board")}
        </Button>
      </form>
    </div>
  );
}
