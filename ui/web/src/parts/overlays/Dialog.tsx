import { useId, useLayoutEffect, useRef, type ReactNode } from "react";
import { t } from "../../i18n";
import { IconButton } from "../IconButton";

interface DialogProps {
  title: string;
  onClose: () => void;
  /** A line under the title. */
  description?: string;
  /** The buttons, the main one last. */
  footer?: ReactNode;
  size?: "small" | "medium" | "large" | "full";
  /** "alertdialog" for a question that must be answered. */
  role?: "dialog" | "alertdialog";
  children: ReactNode;
}

/**
 * A modal dialog: open while it is mounted. The browser keeps the focus inside and gives it back afterwards. What happens
 * in it is not the canvas's: a node draws its own dialogs, and React Flow, which knows its three class names only, would
 * drag the node by a stroke of a brush.
 */
export function Dialog({ title, onClose, description, footer, size = "medium", role, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const isPressedOutside = useRef(false);
  const id = useId();
  useLayoutEffect(() => openWhereShown(dialog.current), []);
  return (
    <dialog
      ref={dialog}
      role={role}
      className={`ll-dialog ll-dialog-${size} nodrag nopan nowheel`}
      aria-labelledby={`${id}-title`}
      aria-describedby={description ? `${id}-text` : undefined}
      onCancel={(event) => {
        if (event.target !== event.currentTarget) return;
        event.preventDefault();
        onClose();
      }}
      onKeyDown={(event) => event.stopPropagation()}
      onPointerDown={(event) => {
        event.stopPropagation();
        isPressedOutside.current = event.target === event.currentTarget;
      }}
      onContextMenu={(event) => event.stopPropagation()}
      onDoubleClick={(event) => event.stopPropagation()}
      onPaste={(event) => event.stopPropagation()}
      onClick={(event) => {
        event.stopPropagation();
        if (isPressedOutside.current && event.target === event.currentTarget) onClose();
      }}
    >
      <div className="ll-dialog-frame">
        <header className="ll-dialog-head">
          <h2 id={`${id}-title`}>{title}</h2>
          <IconButton icon="close" label={t("widgets.close")} onClick={onClose} />
        </header>
        {description && (
          <p id={`${id}-text`} className="ll-dialog-text">
            {description}
          </p>
        )}
        <div className="ll-dialog-body">{children}</div>
        {footer && <footer className="ll-dialog-foot">{footer}</footer>}
      </div>
    </dialog>
  );
}

/**
 * Several views may draw the same dialog, and those in hidden tabs must stay closed: a modal dialog that nobody sees
 * still takes the whole page away. Opens and closes with the view; returns what ends it.
 */
function openWhereShown(dialog: HTMLDialogElement | null): () => void {
  const root = dialog?.getRootNode();
  const view = root instanceof ShadowRoot ? root.host : document.body;
  const follow = () => {
    if (!dialog || dialog.open === view.checkVisibility()) return;
    if (dialog.open) dialog.close();
    else dialog.showModal();
  };
  follow();
  const watcher = new ResizeObserver(follow);
  watcher.observe(view);
  return () => {
    watcher.disconnect();
    dialog?.close();
  };
}
