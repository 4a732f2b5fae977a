import assert from "node:assert/strict";
import { test } from "node:test";
import { foreignSyntax, syntaxText } from "../src/widgets/promptSyntax";

test("weights, LoRAs and choices of other tools are found in a prompt", () => {
  const found = foreignSyntax("a (red:1.2) ((big)) [small] cup <lora:ink:0.8>, {oak|ash} table, __light/soft__");
  assert.deepEqual(found, {
    weights: ["(red:1.2)", "((big))", "[small]"],
    loras: ["<lora:ink:0.8>"],
    choices: ["{oak|ash}", "__light/soft__"],
  });
});

test("brackets of plain texts, emphasis and layouts as JSON are none", () => {
  for (const text of [
    "a cup (of tea)",
    "a cup+++ at 12:30",
    "{ one thing }",
    "snake_case__",
    '{"boxes": [[0, 1, 2, 3]], "text": "a | b"}',
    "",
  ]) {
    assert.deepEqual(foreignSyntax(text), { weights: [], loras: [], choices: [] }, text);
    assert.equal(syntaxText(text), "");
  }
});

test("a prompt's note names at most two of each kind, shortened, and what does it here", () => {
  const note = syntaxText(`(a:1) (b:2) (c:3) <lora:${"x".repeat(60)}:1>`);
  assert.ok(note.includes("(a:1), (b:2)") && !note.includes("(c:3)"));
  assert.ok(note.includes("…") && !note.includes("x".repeat(31)));
  assert.match(note, /LoRA/);
});
