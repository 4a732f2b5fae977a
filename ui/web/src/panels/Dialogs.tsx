import { useEffect, type ReactNode } from "react";
import type { ToCopy } from "../canvas/commands/copyAs";
import { lazily } from "../frame/lazily";
import type { PlacesAsked } from "../gallery/recall/recallActions";
import { followDownloads } from "../models/downloadsStore";
import { usePage } from "../store/page";
import { ConflictDialog } from "./files/ConflictDialog";
import type { SaveAsked } from "./files/fileActions";
import type { PlainFile } from "./files/openFile";
import { SaveAsDialog } from "./files/SaveAsDialog";
import { UnsavedDialog } from "./files/UnsavedDialog";
import type { HelpAsked } from "./help/openHelp";
import type { Named } from "./library/VersionsDialog";
import { usePageShortcuts } from "./pageShortcuts";
import { useCheck } from "./problems/useCheck";

const SweepDialog = lazily(async () => (await import("./runs/SweepDialog")).SweepDialog);
const LibraryDialog = lazily(async () => (await import("./library/LibraryDialog")).LibraryDialog);
const TextDialog = lazily(async () => (await import("./files/TextDialog")).TextDialog);
const PlainFileDialog = lazily(async () => (await import("./files/PlainFileDialog")).PlainFileDialog);
const AppDialog = lazily(async () => (await import("./files/AppDialog")).AppDialog);
const ShareDialog = lazily(async () => (await import("./files/ShareDialog")).ShareDialog);
const VersionsDialog = lazily(async () => (await import("./library/VersionsDialog")).VersionsDialog);
const PlacesDialog = lazily(async () => (await import("../gallery/recall/PlacesDialog")).PlacesDialog);
const TemplatesDialog = lazily(async () => (await import("./library/TemplatesDialog")).TemplatesDialog);
const SettingsDialog = lazily(async () => (await import("./settings/SettingsDialog")).SettingsDialog);
const HelpDialog = lazily(async () => (await import("./help/HelpDialog")).HelpDialog);
const KeptDialog = lazily(async () => (await import("./kept/KeptDialog")).KeptDialog);
const GetModelDialog = lazily(async () => (await import("../models/GetModelDialog")).GetModelDialog);
const ShortcutsDialog = lazily(async () => (await import("./ShortcutsDialog")).ShortcutsDialog);

/** The dialog that `openDialog` was asked for; also what the page does unseen: checks, shortcuts, news of
 * downloads. */
export function Dialogs() {
  const dialog = usePage((state) => state.dialog);
  usePageShortcuts();
  useCheck();
  useEffect(followDownloads, []);
  return dialog && contentOf(dialog.name, dialog.payload);
}

function contentOf(name: string, payload: unknown): ReactNode {
  switch (name) {
    case "library":
      return <LibraryDialog />;
    case "templates":
      return <TemplatesDialog />;
    case "saveAs":
      return <SaveAsDialog {...(payload as SaveAsked | undefined)} />;
    case "versions":
      return <VersionsDialog of={(payload as Named | undefined) ?? null} />;
    case "app":
      return <AppDialog />;
    case "share":
      return <ShareDialog />;
    case "settings":
      return <SettingsDialog />;
    case "shortcuts":
      return <ShortcutsDialog />;
    case "get_model":
      return <GetModelDialog model={payload as string} />;
    case "help":
      return <HelpDialog {...(payload as HelpAsked)} />;
    case "kept":
      return <KeptDialog />;
    case "sweep":
      return <SweepDialog />;
    case "conflict":
      return <ConflictDialog {...(payload as SaveAsked)} />;
    case "unsaved":
      return <UnsavedDialog answer={payload as (mayLeave: boolean) => void} />;
    case "places":
      return <PlacesDialog {...(payload as PlacesAsked)} />;
    case "plain_file":
      return <PlainFileDialog plain={payload as PlainFile} />;
    case "text":
      return <TextDialog {...(payload as ToCopy)} />;
    default:
      return null;
  }
}
