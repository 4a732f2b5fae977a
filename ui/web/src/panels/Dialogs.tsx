import type { ReactNode } from "react";
import { usePage } from "../store/page";
import { Conflict } from "./files/ConflictDialog";
import { Library } from "./library/LibraryDialog";
import { Picture } from "./files/PictureDialog";
import { SaveAs } from "./files/SaveAsDialog";
import { Share } from "./files/ShareDialog";
import { Shortcuts } from "./ShortcutsDialog";
import { Sweep } from "./runs/SweepDialog";
import { Templates } from "./library/TemplatesDialog";
import { Unsaved } from "./files/UnsavedDialog";
import { Versions, type Named } from "./library/VersionsDialog";
import type { SaveAsked } from "./files/fileActions";
import type { PlainPicture } from "./files/openFile";
import { useSharedLink } from "./files/sharedLink";
import { useShortcuts } from "./pageShortcuts";
import { useCheck } from "./problems/useCheck";

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
