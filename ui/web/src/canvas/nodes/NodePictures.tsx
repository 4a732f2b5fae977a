import { openResult } from "../../gallery/resultActions";
import { shownIn, stateIn } from "../../graph/subs";
import { urls } from "../../host";
import { t } from "../../i18n";
import { Icon } from "../../parts/icons";
import { Sound } from "../../parts/Sound";
import { useEditor } from "../../store/editor";
import { useLive } from "../../store/live";
import type { NodeState } from "../../types";
import { shownAfter } from "./shownAfter";

const SHOWN = 4;

interface PicturesProps {
  name: string;
  /** What the run calls it. */
  ran: string;
  title: string;
  state: NodeState;
}

/** What a node has made: its results; before there are any the latest preview, then the picture that came of it. */
export function NodePictures({ name, ran, title, state }: Omit<PicturesProps, "state"> & { state: NodeState | null }) {
  if (state && state.files.length > 0) return <Results state={state} title={title} />;
  if (state) return <Preview name={name} ran={ran} title={title} state={state} />;
  return <Nothing />;
}

function Nothing() {
  return (
    <div className="ll-made ll-made-none">
      <Icon name="image" size={28} />
    </div>
  );
}

function Preview({ name, ran, title, state }: PicturesProps) {
  const run = useLive((live) => live.watched);
  const shown = useLive((live) => shownIn((run && live.runs[run]?.nodes) || {}, ran));
  const graph = useEditor((editor) => editor.graph);
  const catalog = useEditor((editor) => editor.catalog);
  const before = ran.slice(0, ran.length - name.length);
  const isOver = ["done", "cached", "skipped"].includes(state.state); // skipped: all that it feeds was there
  const sharp = useLive((live) => {
    const nodes = isOver && run ? live.runs[run]?.nodes : undefined;
    return nodes ? shownAfter(graph, catalog, name, (after) => stateIn(nodes, before + after)?.files[0]) : undefined;
  });
  if (sharp) return <Made id={sharp} title={title} className="ll-made" />;
  if (state.preview === 0) return <Nothing />;
  return (
    <div className="ll-made">
      <img
        src={urls.preview(run ?? "", shown, state.preview)}
        alt={t("canvas.preview_of", { node: title })}
        draggable={false}
      />
    </div>
  );
}

function Results({ state: { files, sounds }, title }: { state: NodeState; title: string }) {
  const more = files.length - SHOWN;
  const shown = files.slice(0, SHOWN);
  return (
    <div className={`ll-mades ll-mades-${shown.length}`}>
      {shown.map((id) => (
        <div key={id}>
          <Made id={id} title={title} className="ll-made" />
          {sounds.includes(id) && <Sound src={urls.file(id)} label={t("canvas.sound_of", { node: title })} />}
        </div>
      ))}
      {more > 0 && <span className="ll-made-more">{t("canvas.more_results", { n: more })}</span>}
    </div>
  );
}

/** Of a node that has no room for a picture: a small one in the place of its icon. */
export function NodeThumb({ ran, title, state: { files, preview } }: Omit<PicturesProps, "name">) {
  const run = useLive((live) => live.watched);
  const shown = useLive((live) => shownIn((run && live.runs[run]?.nodes) || {}, ran));
  if (files[0]) return <Made id={files[0]} title={title} className="ll-node-thumb" />;
  if (preview === 0 || run === null) return null;
  return (
    <span className="ll-node-thumb">
      <img src={urls.preview(run, shown, preview)} alt={t("canvas.preview_of", { node: title })} draggable={false} />
    </span>
  );
}

function Made({ id, title, className }: { id: string; title: string; className: string }) {
  return (
    <button
      type="button"
      className={`${className} nodrag`}
      aria-label={t("canvas.open_result", { node: title })}
      onClick={() => void openResult(id)}
    >
      <img src={urls.thumb(id)} alt="" draggable={false} />
    </button>
  );
}
