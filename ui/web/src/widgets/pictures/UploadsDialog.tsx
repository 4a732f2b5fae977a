import { useEffect, useState } from "react";
import { host, sentence, urls } from "../../host";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { formatBytes } from "../../parts/format";
import { IconButton } from "../../parts/IconButton";
import { Notice } from "../../parts/Notice";
import { Dialog } from "../../parts/overlays/Dialog";
import { Spinner } from "../../parts/Spinner";
import { confirm } from "../../store/page";
import type { UploadKind, UploadRow } from "../../types";
import { pictureName } from "../widget";

interface UploadsDialogProps {
  kind: UploadKind;
  /** Instead of the usual one. */
  title?: string;
  onChoose: (path: string) => void;
  onClose: () => void;
}

/** The pictures, or the sounds, that the user sent: one can be used again, and those that take room deleted. */
export function UploadsDialog({ kind, title, onChoose, onClose }: UploadsDialogProps) {
  const [rows, setRows] = useState<UploadRow[] | null>(null);
  const [hasMore, setMore] = useState(false);
  const [error, setError] = useState("");
  const said = (work: Promise<void>) => work.catch((cause: unknown) => setError(sentence(cause)));
  const read = async (known: UploadRow[]) => {
    const page = await host.uploads(kind, known.at(-1)?.path);
    setRows([...known, ...page.rows]);
    setMore(page.hasMore);
  };
  const remove = async (path: string) => {
    if (!(await confirm(t("widgets.confirm_delete_picture", { name: pictureName(path) })))) return;
    await host.deleteUpload(path);
    setRows((shown) => shown && shown.filter((row) => row.path !== path));
  };
  useEffect(() => void said(read([])), []);
  return (
    <Dialog
      title={title ?? t(`widgets.uploads_${kind}`)}
      description={t(`widgets.uploads_text_${kind}`)}
      onClose={onClose}
    >
      {error && <Notice kind="error">{error}</Notice>}
      {!rows && !error && <Spinner label={t(`widgets.uploads_${kind}`)} isVisible />}
      {rows?.length === 0 && <p>{t(`widgets.no_uploads_${kind}`)}</p>}
      <ul className="ll-uploads">
        {rows?.map(({ path, bytes }) => (
          <li key={path}>
            <button
              type="button"
              aria-label={t("widgets.use_picture", { name: pictureName(path) })}
              onClick={() => onChoose(path)}
            >
              <img src={urls.uploadThumb(path)} alt="" loading="lazy" draggable={false} />
              <span title={pictureName(path)}>{pictureName(path)}</span>
            </button>
            <span className="ll-quiet">{formatBytes(bytes)}</span>
            <IconButton
              icon="trash"
              size={14}
              label={t("widgets.delete_picture", { name: pictureName(path) })}
              onClick={() => void said(remove(path))}
            />
          </li>
        ))}
      </ul>
      {hasMore && <Button onClick={() => void said(read(rows ?? []))}>{t("widgets.more_uploads")}</Button>}
    </Dialog>
  );
}
