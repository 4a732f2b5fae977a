import assert from "node:assert/strict";
import { test } from "node:test";
import { setHost } from "../src/http";
import { loadModels } from "../src/models/modelsStore";
import { newBrowser } from "./browser";

test("folders are looked at anew after a request that was under way when somebody asked for it", async () => {
  const browser = newBrowser();
  setHost("loom", "v1", () => undefined);
  let answer = (): void => undefined;
  const held = new Promise<void>((go_on) => (answer = go_on));
  browser.answer(async () => {
    await held;
    return Response.json({ models: [], devices: [], loaded: [] });
  });
  const first = loadModels();
  await Promise.all([loadModels({ isFresh: true }), loadModels({ isFresh: true }), loadModels()]);
  answer();
  await first;
  assert.deepEqual(
    browser.requests.map(({ url }) => new URL(url).pathname + new URL(url).search),
    ["/prefix/loom/models", "/prefix/loom/models?refresh=1"],
  );
});
