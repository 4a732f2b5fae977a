import { urls } from "../../host";
import { t } from "../../i18n";
import { useLive } from "../../store/live";
import { go } from "../../store/page";
import type { NodeState } from "../../types";

const SHOWN = 4;

/** What a node has made: its results, and before there are any the latest preview of its latents. */
export function NodePictures({ name, title, state }: { name: string; title: string; state: NodeState }) {
  const run = useLive((live) => live.watched);
  if (state.files.length > 0) return <Results files={state.files} title={title} />;
  if (state.preview === 0 || run === null) return null;
  return (
    <div className="ll-made">
      <img
        src={urls.preview(run, name, state.preview)}
        alt={t("canvas.preview_of", { node: title })}
        draggable={false}
      />
    </div>
  );
}

function Results({ files, title }: { files: readonly string[]; title: string }) {
  const more = files.length - SHOWN;
  return (
    <div className={`ll-mades ${files.length > 1 ? "ll-mades-many" : ""}`}>
      {files.slice(0, SHOWN).map((id) => (
        <button
          key={id}
          type="button"
          className="ll-made nodrag"
          aria-label={t("canvas.open_result", { node: title })}
          onClick={() => go("gallery", { result: id, back: "build" })}
        >
          <img src={urls.thumb(id)} alt="" draggable={false} />
        </button>
      ))}
      {more > 0 && <span className="ll-made-more">{t("canvas.more_results", { n: more })}</span>}
    </div>
  );
}
