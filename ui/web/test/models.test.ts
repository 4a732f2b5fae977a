import assert from "node:assert/strict";
import { test } from "node:test";
import { setHost } from "../src/http";
import { alike } from "../src/models/Loaded";
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

test("parts that several ranks have on one device are told once, with how many there are", () => {
  const part = { name: "toy", component: "vae", device: "cpu", bytes: 5 };
  const found = alike([
    part,
    { ...part, component: "text" },
    part,
    { ...part, bytes: 6 },
    { ...part, device: "cuda:0" },
  ]);
  assert.deepEqual(
    found.map(({ component, device, bytes, count }) => [component, device, bytes, count]),
    [
      ["vae", "cpu", 5, 2],
      ["text", "cpu", 5, 1],
      ["vae", "cpu", 6, 1],
      ["vae", "cuda:0", 5, 1],
    ],
  );
});
