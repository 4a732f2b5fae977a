import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { claimDraft } from "../src/store/draftClaim";
import { newBrowser } from "./browser";

/** Locks that all tabs of the browser share; one that is held is never given back. */
let held: Set<string>;

beforeEach(() => {
  newBrowser();
  held = new Set();
  const request = (name: string, _: unknown, use: (lock: object | null) => unknown): void => {
    const isFree = !held.has(name);
    held.add(name);
    use(isFree ? {} : null);
  };
  Object.defineProperty(navigator, "locks", { value: { request }, configurable: true });
});

const newTab = (): void => sessionStorage.removeItem("loom.draft_key");
const closeTabs = (): void => held.clear();

test("the first tab begins with nothing, under a new key", async () => {
  const { key, source } = await claimDraft([], []);
  assert.match(key, /^d[0-9a-f]{16}$/);
  assert.equal(source, null);
});

test("a reloaded tab goes on with its draft; a second tab begins as it is, under a key of its own", async () => {
  const { key } = await claimDraft([], []);
  closeTabs();
  assert.deepEqual(await claimDraft([], ["newer", key]), { key, source: key });
  newTab();
  const second = await claimDraft([], ["newer", key]);
  assert.equal(second.source, key);
  assert.notEqual(second.key, key);
});

test("a browser opened again goes on with its last draft, and one with unsent edits comes first", async () => {
  const { key } = await claimDraft([], []);
  closeTabs();
  newTab();
  assert.deepEqual(await claimDraft(["unsent"], [key]), { key: "unsent", source: "unsent" });
  newTab();
  closeTabs();
  assert.equal((await claimDraft([], ["unsent", key])).key, "unsent");
});

test("another browser begins as the newest draft, and never writes to it", async () => {
  const { key, source } = await claimDraft([], ["newest", "older"]);
  assert.equal(source, "newest");
  assert.ok(!["newest", "older"].includes(key));
});

test("a draft of another user in this browser is not taken", async () => {
  await claimDraft(["of_ann"], []);
  closeTabs();
  assert.equal((await claimDraft([], ["of_eve"])).source, "of_eve");
});

test("without locks only the tab's own draft is taken", async () => {
  const { key } = await claimDraft([], []);
  Object.defineProperty(globalThis, "navigator", { value: {}, configurable: true });
  assert.equal((await claimDraft([], [key])).key, key);
  newTab();
  assert.notEqual((await claimDraft([], [key])).key, key);
});
