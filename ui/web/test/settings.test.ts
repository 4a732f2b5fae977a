import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { chooseKeys, chosenFor, combination, meantBy, refusalOf } from "../src/store/keyBindings";
import { allowNotifications, notify } from "../src/store/notify";
import { changeSettings, newSize, remembered, settingsStore, sideOf } from "../src/store/settings";
import { newBrowser, type Browser } from "./browser";

const NONE = { code: "", ctrlKey: false, metaKey: false, altKey: false, shiftKey: false };
const CTRL_D = { ...NONE, key: "d", code: "KeyD", ctrlKey: true };
let browser: Browser;

beforeEach(() => {
  browser = newBrowser();
  settingsStore.setState({ theme: "system", notifies: false, keys: {}, width: 0, height: 0 });
});

test("a new canvas has the size that was set; what was not is the model's own", () => {
  assert.deepEqual(newSize(), {});
  changeSettings({ width: 768 });
  assert.deepEqual(newSize(), { width: 768 });
  assert.deepEqual([remembered().width, remembered().height], [768, 0]);
  assert.deepEqual([NaN, -8, "9", 640.4, 1e9].map(sideOf), [0, 0, 0, 640, 16384]);
});

test("keys are named without what only some keyboards need", () => {
  assert.equal(combination({ ...NONE, key: "?", shiftKey: true }), "?");
  assert.equal(combination({ ...NONE, key: "G", ctrlKey: true, shiftKey: true }), "Ctrl+Shift+G");
  assert.equal(combination({ ...NONE, key: "s", metaKey: true }), "Ctrl+S");
  assert.equal(combination({ ...NONE, key: "˜", code: "KeyN", altKey: true }), "Alt+N");
  assert.equal(combination({ ...NONE, key: "Shift", shiftKey: true }), "");
});

test("chosen keys do what the usual ones did, which do nothing then, until they are reset", () => {
  chooseKeys("Ctrl+D", "Q");
  const meant = { key: "d", code: "KeyD", ctrlKey: true, altKey: false, shiftKey: false };
  assert.deepEqual(meantBy({ ...NONE, key: "q", code: "KeyQ" }), meant);
  assert.equal(meantBy(CTRL_D), null);
  assert.equal(meantBy({ ...NONE, key: "l" })?.key, "l");
  assert.deepEqual(remembered().keys, { "Ctrl+D": "Q" });
  chooseKeys("Ctrl+D", "Ctrl+D");
  assert.equal(chosenFor("Ctrl+D"), "Ctrl+D");
  assert.equal(meantBy(CTRL_D)?.ctrlKey, true);
});

test("keys of something else and of the browser are refused", () => {
  assert.deepEqual(refusalOf("Ctrl+D", "L"), { kind: "taken", by: "L" });
  assert.deepEqual(refusalOf("Ctrl+D", "Tab"), { kind: "fixed" });
  assert.deepEqual(refusalOf("Ctrl+D", "Ctrl+V"), { kind: "fixed" });
  assert.equal(refusalOf("Ctrl+Enter", "Ctrl+Enter"), null);
  chooseKeys("L", "J");
  assert.equal(refusalOf("Ctrl+D", "L"), null); // given up
});

test("what a browser kept badly is as usual, and one that keeps nothing still changes", () => {
  localStorage.setItem("loom.settings", '{"theme": "pink", "notifies": "yes", "keys": {"L": 3, "F": "J"}}');
  assert.deepEqual(remembered(), { theme: "system", notifies: false, keys: { F: "J" }, width: 0, height: 0 });
  localStorage.setItem("loom.settings", "{");
  assert.equal(remembered().theme, "system");
  Object.defineProperty(globalThis, "localStorage", { value: undefined, configurable: true });
  changeSettings({ theme: "dark" });
  assert.equal(settingsStore.getState().theme, "dark");
});

test("the browser notifies only where it was switched on, allowed, and the tab is hidden", async () => {
  const shown: string[] = [];
  let asked = 0;
  class Told {
    static permission = "default";
    static requestPermission = async () => {
      asked += 1;
      return (Told.permission = "granted");
    };
    constructor(_: string, { body }: { body: string }) {
      shown.push(body);
    }
  }
  Object.defineProperty(globalThis, "Notification", { value: Told, configurable: true });
  browser.document.visibilityState = "hidden";
  notify("before", "");
  assert.equal(asked, 0);
  assert.equal(await allowNotifications(), "granted");
  notify("stars is done.", "stars");
  browser.document.visibilityState = "visible";
  notify("seen anyway", "stars");
  assert.deepEqual(shown, ["stars is done."]);
  Told.permission = "denied";
  assert.equal(await allowNotifications(), "denied");
  assert.equal(settingsStore.getState().notifies, false);
});
