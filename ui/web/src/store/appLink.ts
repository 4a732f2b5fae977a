/** Links to apps: `?app=TOKEN` behind the page's address, which then shows the app and nothing else. */

import { linkWith } from "./sharedLink";

const NAME = "app";

export function appLink(token: string): string {
  return linkWith(NAME, token);
}

/** The token of the app that the page was opened for; "" where it is the whole page. */
export function openedApp(): string {
  return new URL(location.href).searchParams.get(NAME) ?? "";
}
