import type { ReactNode } from "react";
import { usePage } from "../store/page";
import { Conflict } from "./dialogs/Conflict";
import { Library } from "./dialogs/Library";
import { Picture } from "./dialogs/Picture";
import { SaveAs } from "./dialogs/SaveAs";
import { Share } from "./dialogs/Share";
import { Shortcuts } from "./dialogs/Shortcuts";
import { Sweep } from "./dialogs/Sweep";
import { Templates } from "./dialogs/Templates";
import { Unsaved } from "./dialogs/Unsaved";
import { Versions, type Named } from "./dialogs/Versions";
import type { SaveAsked } from "./files";
import type { PlainPicture } from "./openFile";
import { useSharedLink } from "./sharedLink";
import { useShortcuts } from "./shortcuts";
import { useCheck } from "./useCheck";

/** The dialog that `openDialog` was asked for; also what the page does unseen: checks, shortcuts, shared links. */
export function Dialogs() {
  const dialog = usePage((state) => state.dialog);
  useShortcuts();
  useCheck();
  useSharedLink();
  return dialog && contentOf(dialog.name, dialog.payload);
}

function contentOf(name: string, payload: unknown): ReactNode {
  switch (name) {
    case "library":
      return <Library />;
    case "templates":
      return <Templates />;
    case "saveAs":
      return <SaveAs {...(payload as SaveAsked | undefined)} />;
    case "versions":
      return <Versions of={(payload as Named | undefined) ?? null} />;
    case "share":
      return <Share />;
    case "shortcuts":
      return <Shortcuts />;
    case "sweep":
      return <Sweep />;
    case "conflict":
      return <Conflict {...(payload as SaveAsked)} />;
    case "unsaved":
      return <Unsaved answer={payload as (mayLeave: boolean) => void} />;
    case "picture":
      return <Picture picture={payload as PlainPicture} />;
    default:
      return null;
  }
}
