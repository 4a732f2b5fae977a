/** Short messages at the bottom, above everything else and beside it: views and dialogs leave them room (`--ll-said`), so
 * that nothing that can be pressed lies below one. Errors are read aloud at once. */

import { useLayoutEffect, useRef } from "react";
import { t } from "../i18n";
import { Button } from "../parts/Button";
import { IconButton } from "../parts/IconButton";
import { Icon, type IconName } from "../parts/icons";
import { goToTabOf } from "../store/drafts";
import { liveStore, watchRun } from "../store/live";
import { dismissToast, go, usePage, type Toast } from "../store/page";

const ICONS: Record<Toast["kind"], IconName> = { info: "info", success: "check", error: "error" };

export function Toasts() {
  const toasts = usePage((state) => state.toasts);
  const region = useRef<HTMLDivElement>(null);
  // Shown anew for each message, so that it lies above a dialog that was opened in the meantime.
  useLayoutEffect(() => {
    const element = region.current;
    if (!element) return;
    if (element.matches(":popover-open")) element.hidePopover();
    if (toasts.length) element.showPopover();
  }, [toasts]);
  useLayoutEffect(() => {
    const element = region.current;
    const root = element?.parentElement;
    if (!element || !root) return;
    const watcher = new ResizeObserver(() => root.style.setProperty("--ll-said", `${element.offsetHeight}px`));
    watcher.observe(element);
    return () => watcher.disconnect();
  }, []);
  return (
    <div ref={region} popover="manual" className="ll-toasts" role="region" aria-label={t("frame.messages")}>
      {toasts.map((shown) => (
        <OneToast key={shown.id} shown={shown} />
      ))}
    </div>
  );
}

function OneToast({ shown: { id, kind, text, run, actions } }: { shown: Toast }) {
  return (
    <div className={`ll-toast ll-toast-${kind}`} role={kind === "error" ? "alert" : "status"}>
      <Icon name={ICONS[kind]} size={18} />
      <span className="ll-toast-text">{text}</span>
      {run && (
        <Button kind="ghost" onClick={() => void showRun(run, id)}>
          {t("frame.show")}
        </Button>
      )}
      {actions?.map(({ label, act }) => (
        <Button
          key={label}
          onClick={() => {
            dismissToast(id);
            act();
          }}
        >
          {label}
        </Button>
      ))}
      <IconButton icon="close" label={t("frame.dismiss")} onClick={() => dismissToast(id)} />
    </div>
  );
}

/** A picture is shown in the gallery, anything else on the canvas. */
async function showRun(run: string, toast: number): Promise<void> {
  dismissToast(toast);
  if (!(await goToTabOf(run))) watchRun(run);
  go(liveStore.getState().runs[run]?.state === "done" ? "gallery" : "build", { run });
}
