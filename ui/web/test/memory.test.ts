import assert from "node:assert/strict";
import { test } from "node:test";
import { chosenBefore, keep, keptOf, rememberChosen } from "../src/simple/formMemory";
import { setMe } from "../src/store/page";
import { newBrowser } from "./browser";
import { ME } from "./live";

newBrowser();

test("values and run are remembered for each workflow by itself", () => {
  keep("a", { values: { seed: 1 } });
  keep("a", { run: "r1" });
  keep("b", { values: { seed: 2 } });
  assert.deepEqual(keptOf("a"), { values: { seed: 1 }, run: "r1" });
  assert.deepEqual(keptOf("b"), { values: { seed: 2 }, run: null });
  assert.deepEqual(keptOf("constructor"), { values: {}, run: null });
  rememberChosen("b");
  assert.equal(chosenBefore(), "b");
});

test("each user of a server with a login has a memory of his own", () => {
  keep("shared", { values: { seed: 3 } });
  for (const user of ["ann", "bob"]) {
    setMe({ ...ME, user });
    assert.deepEqual(keptOf("shared").values, {});
    keep("shared", { values: { seed: user } });
  }
  setMe({ ...ME, user: "ann" });
  assert.deepEqual(keptOf("shared").values, { seed: "ann" });
  setMe({ ...ME, has_auth: false, user: "local" });
  assert.deepEqual(keptOf("shared").values, { seed: 3 });
});

test("only the workflows used last are remembered", () => {
  for (let index = 0; index < 60; index += 1) keep(`w${index}`, { run: "r" });
  assert.equal(keptOf("w59").run, "r");
  assert.equal(keptOf("w0").run, null);
});

test("another program's text in the storage is no error", () => {
  for (const text of ["{", "[]", "null", '{"chosen":1,"kept":{}}', '{"chosen":"x","kept":{"a":{"values":3}}}']) {
    localStorage.setItem("latentloom.simple", text);
    assert.deepEqual(keptOf("a"), { values: {}, run: null });
  }
});
