/** What a page does once, whatever views it shows: read the catalog, open the draft, watch the server. */

import { ApiError, host, LiveSocket, sentence } from "../host";
import { setHost, type Trouble } from "../http";
import { t } from "../i18n";
import type { LiveMessage } from "../types";
import { announce, announceNew } from "./announce";
import { keep, keepDrafts, openDrafts } from "./drafts";
import { keepChosen } from "./chosen";
import { setCatalog } from "./editor";
import { holding } from "../holding";
import { followKept } from "./kept";
import { liveStore, receive, setConnection } from "./live";
import { endedRuns, newRuns } from "./liveState";
import { dismissAbout, pageStore, setMe, startLanguage, toast } from "./page";
import { askShared, openedApp, openShared } from "./links";
import { keepTitle } from "./tabTitle";

/** After so many tries the live connection is said not to get through. */
const DEAF_TRIES = 3;

/** Of what is said of the server only the newest is shown. */
const ABOUT = "server";
let isOffline = false;
/** Tries of the live connection in a row that did not get through although the server answers. */
let numDeaf = 0;
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
    if (!openedApp()) {
      await openDrafts(begun);
      if (shared) await openShared(shared);
    }
  } catch (error) {
    pageStore.setState({
      startup: { state: "failed", message: sentence(error) },
    });
    return;
  }
  if (!openedApp()) keepWork();
  new LiveSocket({ onMessage: holding(onMessage), onConnection });
  pageStore.setState({ startup: { state: "ready" } });
}

/** What belongs to a page that edits; an app has nothing of it. */
function keepWork(): void {
  keepDrafts();
  keepChosen();
  keepTitle();
  followKept();
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

function onConnection(isOn: boolean): void {
  setConnection(isOn);
  if (!isOn) return void findReason();
  if (numDeaf >= DEAF_TRIES) dismissAbout(ABOUT);
  numDeaf = 0;
  tell("online");
  void keep();
}

/** A socket that is refused does not say why; a request does. */
async function findReason(): Promise<void> {
  try {
    await host.me();
  } catch {
    numDeaf = 0;
    return; // `tell` has heard of it
  }
  numDeaf += 1;
  if (numDeaf === DEAF_TRIES) toast({ kind: "error", text: t("frame.no_live"), about: ABOUT, isLasting: true });
}

function onMessage(message: LiveMessage): void {
  const before = liveStore.getState();
  receive(message);
  const after = liveStore.getState();
  if (before.server && before.server !== after.server)
    toast({ kind: "info", text: t("frame.restarted"), about: ABOUT });
  if (!before.server || openedApp()) return; // an app shows its own run, and no other
  newRuns(before, after).forEach(announceNew);
  endedRuns(before, after).forEach((run) => announce(run, after.runs));
}

function tell(trouble: Trouble): void {
  const reload = { label: t("frame.reload"), act: () => location.reload() };
  if (trouble === "login") toast({ kind: "error", text: t("host.login"), actions: [reload], isLasting: true });
  if (trouble === "offline" && !isOffline)
    toast({ kind: "error", text: t("host.offline"), about: ABOUT, isLasting: true });
  if (trouble === "online" && isOffline) toast({ kind: "success", text: t("frame.online"), about: ABOUT });
  isOffline = trouble === "offline" || (isOffline && trouble !== "online");
}
