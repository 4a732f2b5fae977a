import { useSyncExternalStore } from "react";

const NARROW = "(max-width: 720px)";

/** Whether the page is as narrow as a phone; the same width as in panels.css. */
export function useIsNarrow(): boolean {
  return useSyncExternalStore(subscribe, () => matchMedia(NARROW).matches);
}

function subscribe(onChange: () => void): () => void {
  const query = matchMedia(NARROW);
  query.addEventListener("change", onChange);
  return () => query.removeEventListener("change", onChange);
}
