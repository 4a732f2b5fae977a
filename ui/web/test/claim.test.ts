import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { claimDrafts, newDraft, rememberTabs, unlock, type Claim, type Tab } from "../src/store/draftClaim";
import { newBrowser } from "./browser";

/** Locks that all tabs of the browser share. */
let held: Set<string>;

beforeEach(() => {
  newBrowser();
  held = new Set();
  const request = (name: string, _: unknown, use: (lock: object | null) => Promise<void> | undefined): void => {
    const isFree = !held.has(name);
    held.add(name);
    void use(isFree ? {} : null)?.then(() => held.delete(name));
  };
  Object.defineProperty(navigator, "locks", { value: { request }, configurable: true });
});

const newTab = (): void => sessionStorage.removeItem("loom.tabs");
const closeTabs = (): void => held.clear();
const tab = (key: string): Tab => ({ key, name: key, isDirty: true, workflow: null, watched: null });
const keys = ({ tabs }: Claim): string[] => tabs.map(({ key }) => key);

/** What a page does when it was opened and has shown something. */
async function open(left: string[], known: string[], user = "ann"): Promise<Claim> {
  const claim = await claimDrafts(user, left, known);
  rememberTabs(claim.tabs, claim.active);
  return claim;
}

test("the first tab begins with nothing, under a new key", async () => {
  const { active, source, tabs } = await open([], []);
  assert.match(active, /^d[0-9a-f]{16}$/);
  assert.deepEqual([tabs.length, source], [1, null]);
});

test("a reloaded tab goes on with its drafts; a second tab begins as the active one, under a key of its own", async () => {
  const { active: one } = await open([], []);
  const two = newDraft();
  rememberTabs([tab(one), tab(two)], two);
  closeTabs();
  const again = await open([], ["newer", two, one]);
  assert.deepEqual([keys(again), again.active, again.source], [[one, two], two, two]);
  newTab();
  const second = await open([], ["newer", two, one]);
  assert.equal(second.source, two);
  assert.deepEqual(keys(second), [second.active]);
  assert.ok(![one, two].includes(second.active));
});

test("a browser opened again goes on with all that it left, and unsent edits come first", async () => {
  const { active: key } = await open([], []);
  rememberTabs([tab(key), tab("other")], key);
  closeTabs();
  newTab();
  const again = await open(["unsent"], [key, "other"]);
  assert.deepEqual([keys(again), again.active], [["unsent", key, "other"], "unsent"]);
  newTab();
  closeTabs();
  assert.equal((await open([], ["unsent", key])).active, "unsent");
});

test("a draft that is deleted is no tab any more, and a page whose tabs are all blank comes back blank", async () => {
  const { active: key } = await open([], []);
  rememberTabs([tab(key), tab("gone")], "gone");
  closeTabs();
  const again = await open([], [key]);
  assert.deepEqual([keys(again), again.active], [[key], key]);
  rememberTabs([], key);
  closeTabs();
  assert.equal((await open([], ["newest"])).source, null);
});

test("another browser begins as the newest draft, and never writes to it", async () => {
  const { active, source } = await open([], ["newest", "older"]);
  assert.equal(source, "newest");
  assert.ok(!["newest", "older"].includes(active));
});

test("what another user left in this browser is not taken", async () => {
  await open(["of_ann"], []);
  closeTabs();
  const { source, tabs } = await open([], ["of_eve", "of_ann"], "eve");
  assert.deepEqual([source, tabs.length], ["of_eve", 1]);
});

test("a draft that is let go can be taken by another tab", async () => {
  const { active: key } = await open([], []);
  unlock(key);
  await Promise.resolve();
  newTab();
  assert.equal((await open([], [key])).active, key);
});

test("without locks only the tab's own drafts are taken", async () => {
  const { active: key } = await open([], []);
  Object.defineProperty(globalThis, "navigator", { value: {}, configurable: true });
  assert.equal((await open([], [key])).active, key);
  newTab();
  assert.notEqual((await open([], [key])).active, key);
});
