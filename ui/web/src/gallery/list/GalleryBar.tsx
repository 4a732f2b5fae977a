import { useEffect, useState } from "react";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { IconButton } from "../../parts/IconButton";
import { Icon } from "../../parts/icons";
import { gallery, useGallery } from "../galleryState";
import { useMarks } from "../marks/useBoards";
import type { KindFilter } from "../resultPages";
import { BoardSelect } from "./BoardSelect";

const KINDS: readonly KindFilter[] = ["all", "image", "video", "audio"];
const TYPING_MS = 250;

/** Search, filters, and the switch to choose several results. */
export function GalleryBar() {
  const { makers } = useMarks();
  const { kind, workflow, isStarred } = useGallery((state) => state.filter);
  const isChoosing = useGallery((state) => state.isChoosing);
  const { setFilter, setChoosing } = gallery.getState();
  const names = makers.map(({ name }) => name);
  if (workflow && !names.includes(workflow)) names.unshift(workflow);
  return (
    <div className="ll-gallery-bar" role="search">
      <Search />
      <div className="ll-segments" role="group" aria-label={t("gallery.kind")}>
        {KINDS.map((each) => (
          <button key={each} type="button" aria-pressed={kind === each} onClick={() => setFilter({ kind: each })}>
            {t(`gallery.kind_${each}`)}
          </button>
        ))}
      </div>
      <IconButton
        icon="star"
        className="ll-star"
        label={t("gallery.only_starred")}
        isPressed={isStarred}
        onClick={() => setFilter({ isStarred: !isStarred })}
      />
      <BoardSelect />
      <select
        className="ll-input ll-gallery-workflow"
        aria-label={t("gallery.workflow")}
        value={workflow}
        onChange={(event) => setFilter({ workflow: event.target.value })}
      >
        <option value="">{t("gallery.all_workflows")}</option>
        {names.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
      <Button icon="check" aria-pressed={isChoosing} onClick={() => setChoosing(!isChoosing)}>
        {t("gallery.choose_several")}
      </Button>
    </div>
  );
}

function Search() {
  const [text, setText] = useState(gallery.getState().search);
  useEffect(() => {
    const timer = setTimeout(() => gallery.getState().setSearch(text.trim()), TYPING_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <label className="ll-gallery-search">
      <Icon name="search" />
      <input
        className="ll-input"
        type="search"
        value={text}
        placeholder={t("gallery.search_hint")}
        title={t("gallery.search_help")}
        aria-label={t("gallery.search")}
        onChange={(event) => setText(event.target.value)}
      />
    </label>
  );
}
