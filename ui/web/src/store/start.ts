/** What a page does once, whatever views it shows: read the catalog, open the draft, watch the server. */

import { ApiError, host, LiveSocket, sentence } from "../host";
import { setHost, type Trouble } from "../http";
import { t } from "../i18n";
import type { LiveMessage } from "../types";
import { announce, announceNew } from "./announce";
import { keep, keepDrafts, openDrafts } from "./drafts";
import { keepChosen } from "./chosen";
import { setCatalog } from "./editor";
import { followKept } from "./kept";
import { liveStore, receive, setConnection } from "./live";
import { endedRuns, newRuns } from "./liveState";
import { dismissToast, pageStore, setMe, startLanguage, toast } from "./page";
import { askShared, openShared } from "./sharedLink";
import { keepTitle } from "./tabTitle";

/** After so many tries the live connection is said not to get through. */
const DEAF_TRIES = 3;

let offlineToast: number | null = null;
let deafToast: number | null = null;
let isBegun = false;

/** Begin once for all views of the page. */
export function startOnce(apiPath: string, version: string): void {
  if (isBegun) return;
  isBegun = true;
  setHost(apiPath, version, tell);
  void start();
}

/** Load what every view needs, all at once; again after a failure. */
export async function start(): Promise<void> {
  pageStore.setState({ startup: { state: "loading" } });
  try {
    const shared = askShared();
    const [catalog, begun] = await Promise.all([host.catalog(), host.start(), startLanguage()]);
    setCatalog(catalog);
    setMe(begun.me);
    await openDrafts(begun);
    if (shared) await openShared(shared);
  } catch (error) {
    pageStore.setState({ startup: { state: "failed", message: sentence(error) } });
    return;
  }
  keepDrafts();
  keepChosen();
  keepTitle();
  followKept();
  new LiveSocket({ onMessage, onConnection });
  pageStore.setState({ startup: { state: "ready" } });
}

/** End this session; the login page takes the place of this one. Work that is not saved is a draft by then. */
export async function logOut(): Promise<void> {
  await keep();
  try {
    await host.logOut();
  } catch (error) {
    if (error instanceof ApiError && error.status !== 401) {
      toast({ kind: "error", text: sentence(error) });
      return;
    }
  }
  location.reload();
}

function onConnection(isOn: boolean, numTries: number): void {
  setConnection(isOn);
  if (isOn) {
    tell("online");
    void keep();
    if (deafToast !== null) dismissToast(deafToast);
    deafToast = null;
  } else void findReason(numTries);
}

/** A socket that is refused does not say why; a request does. */
async function findReason(numTries: number): Promise<void> {
  try {
    await host.me();
  } catch {
    return; // `tell` has heard of it
  }
  if (numTries >= DEAF_TRIES) deafToast ??= toast({ kind: "error", text: t("frame.no_live"), isLasting: true });
}

function onMessage(message: LiveMessage): void {
  const before = liveStore.getState();
  receive(message);
  const after = liveStore.getState();
  if (before.server && before.server !== after.server) toast({ kind: "info", text: t("frame.restarted") });
  if (!before.server) return;
  newRuns(before, after).forEach(announceNew);
  endedRuns(before, after).forEach((run) => announce(run, after.runs));
}

function tell(trouble: Trouble): void {
  if (trouble === "login") toast({ kind: "error", text: t("host.login"), action: "reload" });
  if (trouble === "offline") offlineToast ??= toast({ kind: "error", text: t("host.offline"), isLasting: true });
  if (trouble === "online" && offlineToast !== null) {
    dismissToast(offlineToast);
    offlineToast = null;
    toast({ kind: "success", text: t("frame.online") });
  }
}
