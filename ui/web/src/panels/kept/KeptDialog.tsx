import { useEffect } from "react";
import { language, t } from "../../i18n";
import { Button } from "../../parts/Button";
import { formatBytes } from "../../parts/format";
import { Meter } from "../../parts/Meter";
import { Dialog } from "../../parts/overlays/Dialog";
import { Spinner } from "../../parts/Spinner";
import { readKept, useKept } from "../../store/kept";
import { closeDialog, go, openDialog } from "../../store/page";
import type { Kept, KeptKind } from "../../types";
import { showTab } from "../panelState";
import { KeptNotice } from "./KeptNotice";

/** Where things of a kind are looked through and deleted; null where that is beside the field that takes them. */
const PLACES: Record<KeptKind["kind"], (() => void) | null> = {
  results: () => leave(() => go("gallery")),
  workflows: () => openDialog("library"),
  drafts: () => openDialog("library"),
  boards: () => leave(() => go("gallery")),
  runs: () => leave(() => (go("build"), showTab("queue"))),
  uploads: null,
  models: () => leave(() => go("models")),
};

/** How much of the server's disk the user takes, with what, and where to make room. */
export function KeptDialog() {
  const kept = useKept();
  useEffect(() => void readKept(), []);
  return (
    <Dialog title={t("panels.kept_title")} description={t("panels.kept_text")} onClose={closeDialog}>
      {kept ? <Shown kept={kept} /> : <Spinner label={t("panels.kept_title")} isVisible />}
    </Dialog>
  );
}

function Shown({ kept }: { kept: Kept }) {
  const rows = [...kept.kinds].sort((a, b) => b.num_bytes - a.num_bytes);
  const most = rows[0]?.num_bytes ?? 0;
  const used = t("panels.kept_of", { used: formatBytes(kept.num_bytes), most: formatBytes(kept.most_bytes) });
  const isUncounted = rows.some((row) => !row.is_counted);
  return (
    <div className="ll-kept">
      <KeptNotice />
      <div className="ll-kept-whole">
        <strong>{used}</strong>
        <Meter kind="level" label={t("panels.kept_title")} value={kept.num_bytes} max={kept.most_bytes} text={used} />
        <span className="ll-quiet">
          {t("panels.kept_free", { free: formatBytes(kept.free_bytes) })}
          {isUncounted && ` ${t("panels.kept_uncounted")}`}
        </span>
      </div>
      <ul className="ll-kept-kinds">
        {rows.map((row) => (
          <Row key={row.kind} row={row} most={most} />
        ))}
      </ul>
    </div>
  );
}

function Row({ row: { kind, num_bytes, count, most_count }, most }: { row: KeptKind; most: number }) {
  const name = t(`panels.kept_${kind}`);
  const open = PLACES[kind];
  const size = formatBytes(num_bytes);
  const number = (value: number) => value.toLocaleString(language());
  return (
    <li>
      <span className="ll-kept-name">{name}</span>
      <span className="ll-kept-size">{size}</span>
      <Meter kind="part" label={name} value={num_bytes} max={most} text={size} />
      <span className="ll-quiet">{t("panels.kept_count", { count: number(count), most: number(most_count) })}</span>
      {open ? (
        <Button kind="ghost" aria-label={t("panels.kept_look_at", { name })} onClick={open}>
          {t("panels.kept_look")}
        </Button>
      ) : (
        <span className="ll-quiet">{t("panels.kept_uploads_where")}</span>
      )}
    </li>
  );
}

function leave(to: () => void): void {
  closeDialog();
  to();
}
