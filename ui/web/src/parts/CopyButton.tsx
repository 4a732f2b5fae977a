import { useEffect, useState } from "react";
import { t } from "../i18n";
import { IconButton } from "./IconButton";

const SHOWN_MS = 2000;

/** Copies `text` and says so for two seconds. `label` names what is copied. */
export function CopyButton({ text, label }: { text: string; label: string }) {
  const [state, setState] = useState<"" | "done" | "failed">("");
  useEffect(() => {
    if (!state) return;
    const timer = setTimeout(() => setState(""), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [state]);
  const copy = () =>
    writeText(text).then(
      () => setState("done"),
      () => setState("failed"),
    );
  return (
    <span className="ll-copy">
      <IconButton icon={state === "done" ? "check" : "copy"} label={label} onClick={copy} />
      <span role="status" className="ll-copy-said">
        {state === "done" ? t("widgets.copied") : state === "failed" ? t("widgets.copy_failed") : ""}
      </span>
    </span>
  );
}

async function writeText(text: string): Promise<void> {
  // Over plain http from another machine the browser gives pages no clipboard.
  if (!navigator.clipboard) throw new Error("no clipboard");
  await navigator.clipboard.writeText(text);
}
