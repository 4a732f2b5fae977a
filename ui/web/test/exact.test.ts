import assert from "node:assert/strict";
import { test } from "node:test";
import { asRead, isDigits, limitOf, marked, parseExact, reachOf, textExact, wholeOf, withLimits } from "../src/exact";
import { paramFor } from "../src/graph/edits/params";
import { clipText, readClip } from "../src/graph/file/clip";
import { fromFile, toFile } from "../src/graph/file/workflowFile";
import { sweepText } from "../src/panels/runs/sweepText";
import { countSweep } from "../src/panels/runs/workflowSeed";
import type { GraphFile, InputSpec } from "../src/types";
import { readNumber } from "../src/widgets/numbers/numberRange";
import { input, TOYS, toyGraph } from "./graphs";

const HUGE = "18446744073709551615";

test("whole numbers that would be rounded keep their digits, and nothing else changes", () => {
  const read = parseExact(`{"seed": ${HUGE}, "a": [-9007199254740993]}`) as { seed: string; a: string[] };
  assert.ok(isDigits(read.seed) && isDigits(read.a[0]));
  assert.deepEqual([asRead(read.seed), asRead(read), wholeOf(read.seed)], [HUGE, textExact(read), BigInt(HUGE)]);
  const others = `{"a":9007199254740991,"b":0.1234567890123456789,"c":1e300,"d":"${HUGE}: \\"${HUGE}","${HUGE}":1}`;
  assert.deepEqual(parseExact(others), JSON.parse(others));
});

test("a file is saved with each number and text as it was read", () => {
  const node = `{"type":"T","version":1,"inputs":{"seed":${HUGE},"text":"${HUGE}"}}`;
  const param = `{"type":"int","default":${HUGE},"min":-9223372036854775808,"max":${HUGE}}`;
  const meta = `{"ticket":12345678901234567890,"text":"12345678901234567890","${HUGE}":[${"9".repeat(40)}]}`;
  const text = `{"format":1,"name":"x","params":{"p":${param}},"nodes":{"a":${node}},"meta":${meta}`;
  const saved = textExact(toFile(fromFile(parseExact(`${text}}`) as GraphFile)));
  assert.ok(saved.startsWith(text), saved);
  const clip = readClip(clipText({ graph: fromFile(parseExact(`${text}}`) as GraphFile), sources: {} }));
  assert.ok(clip && textExact(toFile(clip.graph)).startsWith(text));
});

test("limits are numbers to count with, whoever wrote them", () => {
  const seed = input("seed", "int", parseExact(`{"min":0,"max":${HUGE}}`) as Partial<InputSpec>);
  const node = { ...TOYS.nodes[0]!, inputs: [seed] };
  assert.equal(withLimits({ ...TOYS, nodes: [node] }).nodes[0]?.inputs[0]?.max, 2 ** 64);
  assert.deepEqual([limitOf(undefined), limitOf(null), limitOf(3)], [null, null, 3]);
});

test("such a seed is sent back as it came, counted up exactly, and swept exactly", () => {
  assert.ok(isDigits(HUGE) && !isDigits("1234567890123456") && !isDigits("9".repeat(40)));
  const seed = { name: "seed", value: wholeOf("18446744073709551610") };
  assert.equal(countSweep(seed, 4), "seed=18446744073709551610..18446744073709551613");
  assert.equal(sweepText({ name: "seed", type: "int", text: `${HUGE}\n7` }), `seed=[${HUGE},7]`);
  assert.equal(sweepText({ name: "text", type: "string", text: `${HUGE}\nb` }), `text=["${HUGE}","b"]`);
  assert.equal(textExact({ seed: marked(HUGE) }), `{"seed":${HUGE}}`);
});

test("a number that is typed beyond what can be counted exactly is limited, and said so", () => {
  const open = reachOf(input("seed", "int", { min: 0, max: 2 ** 64 }));
  assert.deepEqual(readNumber(HUGE, open), { value: Number.MAX_SAFE_INTEGER, changed: "limited" });
  assert.equal(reachOf(input("seed", "int")).max, Number.MAX_SAFE_INTEGER);
});

test("a param takes the limits of its input, but none that was rounded", () => {
  const spec = input("steps", "int", { min: 0, max: 2 ** 64 });
  assert.deepEqual(paramFor(toyGraph(), "first", spec), { type: "int", min: 0 });
});
