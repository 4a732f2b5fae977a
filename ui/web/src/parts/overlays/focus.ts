/** Where the focus is: `document.activeElement` stops at the host of a shadow root; this looks inside. */

export function focusedBeside(element: HTMLElement | null): HTMLElement | null {
  const root = element?.getRootNode();
  const active = root instanceof ShadowRoot || root instanceof Document ? root.activeElement : null;
  return active instanceof HTMLElement ? active : null;
}
