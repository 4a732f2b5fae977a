import assert from "node:assert/strict";
import { test } from "node:test";
import { isDigits, parseExact, reachOf, wholeOf } from "../src/exact";
import { paramFor } from "../src/graph/params";
import { countSweep } from "../src/panels/seeds";
import { sweepText } from "../src/panels/sweepText";
import { readNumber } from "../src/widgets/numbers";
import { input, toyGraph } from "./graphs";

const HUGE = "18446744073709551615";

test("whole numbers that would be rounded stay the text of their digits, and nothing else does", () => {
  assert.deepEqual(parseExact(`{"seed": ${HUGE}, "a": [-9007199254740993]}`), { seed: HUGE, a: ["-9007199254740993"] });
  const others = `{"a":9007199254740991,"b":0.1234567890123456789,"c":1e300,"d":"${HUGE}: \\"${HUGE}","max":${HUGE}}`;
  assert.deepEqual(parseExact(others), JSON.parse(others));
});

test("such a seed is sent back as it came, counted up exactly, and swept exactly", () => {
  assert.ok(isDigits(HUGE) && !isDigits("1234567890123456") && !isDigits("9".repeat(40)));
  const seed = { name: "seed", value: wholeOf("18446744073709551610") };
  assert.equal(countSweep(seed, 4), "seed=18446744073709551610..18446744073709551613");
  assert.equal(sweepText({ name: "seed", type: "int", text: `${HUGE}\n7` }), `seed=["${HUGE}",7]`);
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
