import { openResult } from "../../gallery/resultActions";
import { urls } from "../../host";
import { t } from "../../i18n";
import { Sound } from "../../parts/Sound";
import { useLive } from "../../store/live";
import type { NodeState } from "../../types";

const SHOWN = 4;

/** What a node has made: its results, and before there are any the latest preview of its latents. */
export function NodePictures({ name, title, state }: { name: string; title: string; state: NodeState }) {
  const run = useLive((live) => live.watched);
  if (state.files.length > 0) return <Results state={state} title={title} />;
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

function Results({ state: { files, sounds }, title }: { state: NodeState; title: string }) {
  const more = files.length - SHOWN;
  return (
    <div className={`ll-mades ${files.length > 1 ? "ll-mades-many" : ""}`}>
      {files.slice(0, SHOWN).map((id) => (
        <div key={id}>
          <button
            type="button"
            className="ll-made nodrag"
            aria-label={t("canvas.open_result", { node: title })}
            onClick={() => void openResult(id)}
          >
            <img src={urls.thumb(id)} alt="" draggable={false} />
          </button>
          {sounds.includes(id) && <Sound src={urls.file(id)} label={t("canvas.sound_of", { node: title })} />}
        </div>
      ))}
      {more > 0 && <span className="ll-made-more">{t("canvas.more_results", { n: more })}</span>}
    </div>
  );
}
