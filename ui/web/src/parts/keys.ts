/** Which keys belong to the control that is typed in, and which to the page around it. */

import type { KeyboardEvent } from "react";

const EDITING = new Set(["a", "c", "v", "x", "y", "z"]);

/** Call on keydown in a text field: shortcuts of the page (Ctrl+Enter, Ctrl+S, Alt+PageDown, F1) go on, all else stays in the field. */
export function keepTyping(event: KeyboardEvent): void {
  const isShortcut = (event.ctrlKey || event.metaKey) && !EDITING.has(event.key.toLowerCase());
  const isOfTabs = event.altKey && event.key.startsWith("Page");
  if (!isShortcut && !isOfTabs && event.key !== "F1") event.stopPropagation();
}
