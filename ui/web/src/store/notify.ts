/** Notifications of the browser, where people switched them on: asked for then, shown while the tab is hidden. */

import { changeSettings, settingsStore } from "./settings";

export type Permission = "granted" | "denied" | "missing";

/** Switch them on, as far as browser and user allow. */
export async function allowNotifications(): Promise<Permission> {
  if (!("Notification" in globalThis)) return "missing";
  const answer =
    Notification.permission === "default" ? await Notification.requestPermission() : Notification.permission;
  changeSettings({ notifies: answer === "granted" });
  return answer === "granted" ? "granted" : "denied";
}

/** Tell something while nobody sees the page; of those about one thing the newest stays. */
export function notify(text: string, about: string): void {
  const isWanted = settingsStore.getState().notifies && document.visibilityState === "hidden";
  if (!isWanted || !("Notification" in globalThis) || Notification.permission !== "granted") return;
  try {
    const shown = new Notification("latentloom", { body: text, tag: about });
    shown.onclick = () => {
      window.focus();
      shown.close();
    };
  } catch {
    // Browsers of phones have the name, and refuse to make one.
  }
}
