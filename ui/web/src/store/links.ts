/** Links for others of this server, behind the page's address: `?shared=TOKEN` opens a workflow, and of `?app=TOKEN` the
 * page shows the app and nothing else. */

import { fromFile } from "../graph/file/workflowFile";
import { host, sentence } from "../host";
import type { NamedGraph } from "../types";
import { toast } from "./page";
import { openTab } from "./tabs";

const NAME = "shared";
const APP = "app";

export function sharedLink(token: string): string {
  return linkWith(NAME, token);
}

export function appLink(token: string): string {
  return linkWith(APP, token);
}

/** The token of the app that the page was opened for; "" where it is the whole page. */
export function openedApp(): string {
  return new URL(location.href).searchParams.get(APP) ?? "";
}

/** The page's address with one thing to ask for. */
function linkWith(name: string, token: string): string {
  const link = new URL(document.baseURI);
  link.search = new URLSearchParams({ [name]: token }).toString();
  link.hash = "";
  return link.href;
}

/** Asks for what the link shares that the page was loaded by; null where it is another link. */
export function askShared(): Promise<NamedGraph> | null {
  const token = new URL(location.href).searchParams.get(NAME);
  if (!token) return null;
  const asked = host.shared(token);
  asked.catch(() => undefined); // told where it is opened
  return asked;
}

/** Opens it as a workflow that is in no library, once: a reload shows the tabs as they are then. */
export async function openShared(asked: Promise<NamedGraph>): Promise<void> {
  const here = new URL(location.href);
  here.searchParams.delete(NAME);
  history.replaceState(history.state, "", here);
  try {
    const { graph, name } = await asked;
    openTab({ ...fromFile(graph), name }, null, { isSaved: true });
  } catch (error) {
    toast({ kind: "error", text: sentence(error) });
  }
}
