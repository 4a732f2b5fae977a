/** Which drafts a tab of the browser edits: every one has its own, so that two of them never write over each other. */

const TABS_KEY = "loom.tabs";

/** One of the workflows that a page has open. */
export interface Tab {
  /** Of its draft. */
  key: string;
  name: string;
  isDirty: boolean;
  /** The id of the saved workflow that it came from. */
  workflow: string | null;
  /** The run whose nodes it shows. */
  watched: string | null;
}

export interface Claim {
  tabs: Tab[];
  /** The key of the one in the editor. */
  active: string;
  /** The draft that it begins as; null for none. */
  source: string | null;
}

interface Remembered {
  user: string;
  tabs: Tab[];
  active: string;
}

let owner = "";
/** Ends the hold on a draft. */
const held = new Map<string, () => void>();

/** The workflows that were open in this tab of the browser; else those that the browser left; else one that begins as the
newest draft of all.

`left` are drafts with edits that only this browser has; `known` are those at the server, newest first. */
export async function claimDrafts(user: string, left: readonly string[], known: readonly string[]): Promise<Claim> {
  owner = user;
  const isThere = (key: string | undefined): key is string =>
    key !== undefined && (left.includes(key) || known.includes(key));
  const own = remembered(() => sessionStorage);
  const last = remembered(() => localStorage);
  const isBlank = own?.tabs.length === 0;
  const unsent = left.filter((key) => !last?.tabs.some((tab) => tab.key === key)).map(unnamed);
  const mine = await lockedOf(own?.tabs.filter(({ key }) => isThere(key)) ?? [], true);
  const others = isBlank || mine.length ? [] : [...unsent, ...(last?.tabs ?? [])].filter(({ key }) => isThere(key));
  const tabs = mine.length ? mine : await lockedOf(others, false);
  const wanted = [own?.active, left[0], last?.active];
  const active = wanted.find((key) => tabs.some((tab) => tab.key === key)) ?? tabs[0]?.key;
  if (active !== undefined) return { tabs, active, source: active };
  const key = newDraft();
  return { tabs: [unnamed(key)], active: key, source: isBlank ? null : (wanted.find(isThere) ?? known[0] ?? null) };
}

/** A key that nothing is kept under yet. */
export function newDraft(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  const key = "d" + [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  void lock(key, true);
  return key;
}

/** Hold a draft until it is let go or the browser's tab closes; false where another tab has it. */
export async function lock(key: string, isOwn: boolean): Promise<boolean> {
  if (!("locks" in navigator)) return isOwn; // a page without TLS: only what this tab made is surely its own
  return new Promise((resolve) => {
    void navigator.locks.request(`loom.draft.${key}`, { ifAvailable: true }, (got) => {
      resolve(got !== null);
      return got ? new Promise<void>((end) => held.set(key, end)) : undefined;
    });
  });
}

export function unlock(key: string): void {
  held.get(key)?.();
  held.delete(key);
}

/** What a reload of this tab, or this browser opened again, will show. */
export function rememberTabs(tabs: readonly Tab[], active: string): void {
  try {
    const text = JSON.stringify({ user: owner, tabs, active });
    sessionStorage.setItem(TABS_KEY, text);
    localStorage.setItem(TABS_KEY, text);
  } catch {
    // A browser that keeps nothing: the next load of the page begins as the newest draft.
  }
}

async function lockedOf(tabs: readonly Tab[], isOwn: boolean): Promise<Tab[]> {
  const isFree = await Promise.all(tabs.map(({ key }) => lock(key, isOwn)));
  return tabs.filter((_, index) => isFree[index]);
}

function unnamed(key: string): Tab {
  return { key, name: "", isDirty: false, workflow: null, watched: null };
}

/** null where nothing was remembered, or for another user. */
function remembered(storage: () => Storage): Remembered | null {
  try {
    const found = JSON.parse(storage().getItem(TABS_KEY) ?? "null") as Remembered | null;
    const isOurs = found?.user === owner && Array.isArray(found.tabs) && found.tabs.every((tab) => tab.key);
    return isOurs ? found : null;
  } catch {
    return null;
  }
}
