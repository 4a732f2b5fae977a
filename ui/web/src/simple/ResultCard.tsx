import { urls } from "../host";
import { t } from "../i18n";
import { ButtonLink } from "../parts/Button";
import { formatBytes, formatSeconds } from "../parts/format";
import { Sound } from "../parts/Sound";
import type { Result } from "../types";

/** How much a small picture is enlarged at most. */
const MAX_SCALE = 6;

/** One result, as large as there is room, and its download. */
export function ResultCard({ result }: { result: Result }) {
  const { id, name, kind, width, height, rate, length_s, bytes, prompt } = result;
  const shown = { src: urls.file(id), width, height, style: { maxWidth: width * MAX_SCALE } };
  return (
    <figure className="ll-outcome">
      {kind === "audio" ? (
        <div className="ll-outcome-stage">
          <Sound src={shown.src} outline={urls.thumb(id)} label={prompt || name} />
        </div>
      ) : kind === "video" ? (
        <div className="ll-outcome-stage">
          <video {...shown} aria-label={prompt || name} controls loop muted={rate === 0} playsInline />
        </div>
      ) : (
        <a className="ll-outcome-stage" href={shown.src} target="_blank" rel="noreferrer" title={t("simple.full_size")}>
          <img {...shown} alt={prompt || name} />
        </a>
      )}
      <figcaption>
        <span className="ll-hint">
          {name} · {kind === "audio" ? formatSeconds(length_s) : `${width} × ${height}`} · {formatBytes(bytes)}
        </span>
        <ButtonLink
          icon="download"
          href={urls.download(id)}
          download={name}
          aria-label={t("simple.download", { name })}
        >
          {t("simple.download_short")}
        </ButtonLink>
      </figcaption>
    </figure>
  );
}
