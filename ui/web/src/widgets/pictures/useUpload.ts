import { useState } from "react";
import { host, sentence } from "../../host";
import { t } from "../../i18n";
import { formatBytes } from "../../parts/format";
import { pageStore } from "../../store/page";
import type { Upload, UploadKind } from "../../types";

export interface Uploading {
  /** 0 to 1 while a file is sent, else null. */
  part: number | null;
  /** Why the last file was refused. */
  refusal: string;
  send: (file: File) => void;
}

/** Sends one file at a time to the server; what is of another kind or too large is refused before it is sent. */
export function useUpload(kind: UploadKind, onDone: (uploaded: Upload) => void): Uploading {
  const [part, setPart] = useState<number | null>(null);
  const [refusal, setRefusal] = useState("");
  const send = async (file: File) => {
    const reason = refusalOf(file, kind);
    setRefusal(reason);
    if (reason) return;
    setPart(0);
    try {
      onDone(await host.upload(file, file.name || t("widgets.pasted_name"), setPart));
    } catch (error) {
      setRefusal(sentence(error));
    } finally {
      setPart(null);
    }
  };
  return { part, refusal, send: (file) => void send(file) };
}

function refusalOf(file: File, kind: UploadKind): string {
  if (file.type && !file.type.startsWith(`${kind}/`))
    return t(`widgets.no_${kind}`, { name: file.name, type: file.type });
  const most = pageStore.getState().me?.max_upload_bytes ?? Infinity;
  if (file.size <= most) return "";
  return t("widgets.too_large", { name: file.name, size: formatBytes(file.size), most: formatBytes(most) });
}
