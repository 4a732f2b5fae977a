/** Links that share a workflow with others of this server: `?shared=TOKEN` behind the page's address. */

import { useEffect } from "react";
import { openShared } from "./fileActions";

const NAME = "shared";

export function sharedLink(token: string): string {
  const link = new URL(document.baseURI);
  link.search = new URLSearchParams({ [NAME]: token }).toString();
  link.hash = "";
  return link.href;
}

let isOpened = false;

/** Opens the workflow of the link that the page was loaded by, once. */
export function useSharedLink(): void {
  useEffect(() => {
    const here = new URL(location.href);
    const token = here.searchParams.get(NAME);
    if (!token || isOpened) return;
    isOpened = true;
    here.searchParams.delete(NAME);
    history.replaceState(history.state, "", here);
    void openShared(token);
  }, []);
}
