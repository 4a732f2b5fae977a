import type { ReactNode } from "react";
import { Icon, type IconName } from "./icons";

const ICONS: Record<NoticeKind, IconName> = { info: "info", success: "check", warning: "warning", error: "error" };

type NoticeKind = "info" | "success" | "warning" | "error";

/** A sentence the reader should not miss, with what to do about it. Errors are read aloud at once. */
export function Notice({ kind = "info", children }: { kind?: NoticeKind; children: ReactNode }) {
  return (
    <div className={`ll-notice ll-notice-${kind}`} role={kind === "error" ? "alert" : "note"}>
      <Icon name={ICONS[kind]} size={18} />
      <div>{children}</div>
    </div>
  );
}
