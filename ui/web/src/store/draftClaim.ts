/** Which draft a tab edits: every tab has its own, so that two of them never write over each other. */

const TAB_KEY = "loom.draft_key";
const LAST_KEY = "loom.last_draft_key";

export interface Claim {
  /** What this tab writes to. */
  key: string;
  /** The draft to begin with; null for none. */
  source: string | null;
}

/** The draft of this tab, else one that this browser left, else a new one that begins as the newest of all.

`left` are drafts with edits that only this browser has; `known` are those at the server, newest first. */
export async function claimDraft(left: readonly string[], known: readonly string[]): Promise<Claim> {
  const own = read(() => sessionStorage.getItem(TAB_KEY));
  const last = read(() => localStorage.getItem(LAST_KEY));
  const there = [own, ...left, last].filter((key) => key !== null && (left.includes(key) || known.includes(key)));
  for (const key of there as string[]) {
    if (await lock(key, key === own)) {
      remember(key);
      return { key, source: key };
    }
  }
  return { key: await newDraft(), source: there[0] ?? known[0] ?? null };
}

/** A key that nothing is kept under yet. */
export async function newDraft(): Promise<string> {
  const bytes = crypto.getRandomValues(new Uint8Array(8));
  const key = "d" + [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  await lock(key, true);
  remember(key);
  return key;
}

/** Hold a draft until the tab closes; false where another tab has it. */
async function lock(key: string, isOwn: boolean): Promise<boolean> {
  if (!("locks" in navigator)) return isOwn; // a page without TLS: only what this tab made is surely its own
  return new Promise((resolve) => {
    void navigator.locks.request(`loom.draft.${key}`, { ifAvailable: true }, (held) => {
      resolve(held !== null);
      return held ? new Promise<never>(() => undefined) : undefined;
    });
  });
}

function remember(key: string): void {
  try {
    sessionStorage.setItem(TAB_KEY, key);
    localStorage.setItem(LAST_KEY, key);
  } catch {
    // A browser that keeps nothing: the next load of the page begins as the newest draft.
  }
}

function read(from: () => string | null): string | null {
  try {
    return from();
  } catch {
    return null;
  }
}
