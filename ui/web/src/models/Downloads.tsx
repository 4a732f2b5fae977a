import { useState } from "react";
import { host, sentence } from "../host";
import { t } from "../i18n";
import { Button } from "../parts/Button";
import { formatBytes, formatLeft } from "../parts/format";
import { IconButton } from "../parts/IconButton";
import { Meter } from "../parts/Meter";
import { isUnderWay, readDownloads, useDownloads } from "./downloadsStore";
import { toast } from "../store/page";
import type { Download } from "../types";
import { worded } from "../worded";

/** Of those that are over so many. */
const SHOWN_DONE = 3;

/** What the server fetches for the user, and what can be gone on with. */
export function Downloads() {
  const downloads = useDownloads();
  const done = downloads.filter(({ state }) => state === "done").slice(0, SHOWN_DONE);
  const shown = [...downloads.filter(({ state }) => state !== "done"), ...done];
  if (shown.length === 0) return null;
  return (
    <ul className="ll-downloads" aria-label={t("models.downloads")}>
      {shown.map((download) => (
        <OneDownload key={download.id} download={download} />
      ))}
    </ul>
  );
}

function OneDownload({ download }: { download: Download }) {
  const { id, model, state, done_bytes, total_bytes, error } = download;
  const [isBusy, setBusy] = useState(false);
  const act = async (ask: () => Promise<unknown>) => {
    setBusy(true);
    try {
      await ask();
      await readDownloads();
    } catch (failure) {
      toast({ kind: "error", text: sentence(failure) });
    } finally {
      setBusy(false);
    }
  };
  const text = progressText(download);
  return (
    <li className={`ll-download ll-download-${state}`} aria-label={model}>
      <div className="ll-download-head">
        <span className="ll-download-name">{model}</span>
        {isUnderWay(download) && (
          <IconButton
            icon="close"
            label={t("models.cancel", { model })}
            disabled={isBusy}
            onClick={() => void act(() => host.cancelDownload(id))}
          />
        )}
      </div>
      {state !== "done" && <Meter label={model} value={done_bytes} max={total_bytes} text={text} />}
      <p className="ll-hint">{text}</p>
      {error && <p className="ll-field-problem">{worded(error)}</p>}
      {(state === "failed" || state === "cancelled") && (
        <div className="ll-download-actions">
          <Button icon="refresh" isBusy={isBusy} onClick={() => void act(() => host.resumeDownload(id))}>
            {t("models.resume")}
          </Button>
          <Button kind="ghost" icon="trash" isBusy={isBusy} onClick={() => void act(() => host.deleteDownload(id))}>
            {t("models.throw_away")}
          </Button>
        </div>
      )}
    </li>
  );
}

/** "3.2 GiB of 12 GiB · 54 MiB/s · 2 min left" */
export function progressText(download: Download): string {
  const { state, done_bytes, total_bytes, bytes_per_s, left_s, num_before } = download;
  const of = t("models.bytes_of", { done: formatBytes(done_bytes), total: formatBytes(total_bytes) });
  if (state === "done") return t("models.is_here", { size: formatBytes(total_bytes) });
  if (state === "waiting") return num_before ? t("models.waits_behind", { count: num_before }) : t("models.waits");
  if (state === "cancelled") return `${t("models.was_cancelled")} · ${of}`;
  if (state === "failed") return of;
  const pace = bytes_per_s === null ? [] : [t("models.per_second", { size: formatBytes(bytes_per_s) })];
  const left = left_s === null ? [] : [t("models.time_left", { time: formatLeft(left_s) })];
  return [of, ...pace, ...left].join(" · ");
}
