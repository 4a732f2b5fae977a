import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { bestLanguage, setTexts, t, word } from "../src/i18n";

const SOURCE = join(process.cwd(), "src");
const texts = (language: string, area: string): Record<string, string> =>
  JSON.parse(readFileSync(join(SOURCE, "texts", language, area), "utf8")) as Record<string, string>;
const holes = (text: string): string[] => [...text.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!).sort();
const areas = readdirSync(join(SOURCE, "texts/en"));

test("both languages have the same areas", () => {
  assert.deepEqual(readdirSync(join(SOURCE, "texts/de")), areas);
});

for (const area of areas) {
  const [en, de] = [texts("en", area), texts("de", area)];
  test(`${area}: both languages have the same keys, holes, and no empty text`, () => {
    assert.deepEqual(Object.keys(de).sort(), Object.keys(en).sort());
    for (const [key, text] of Object.entries(en)) {
      assert.deepEqual(holes(de[key]!), holes(text), key);
      assert.ok(text.trim() && de[key]!.trim(), key);
    }
  });
}

test("no key stands in two areas", () => {
  const keys = areas.flatMap((area) => Object.keys(texts("en", area)));
  assert.deepEqual(
    keys.filter((key, index) => keys.indexOf(key) !== index),
    [],
  );
});

test("every text is used", () => {
  const files = readdirSync(SOURCE, { recursive: true, encoding: "utf8" }).filter((name) => /\.tsx?$/.test(name));
  const source = files.map((name) => readFileSync(join(SOURCE, name), "utf8")).join("\n");
  // A computed key, such as `panels.state_${state}`, stands for all that begin like it.
  const stems = [...source.matchAll(/`([a-z]+\.[a-z_.]*)\$\{/g)].map(([, stem]) => stem!);
  const isUsed = (key: string): boolean => source.includes(`"${key}"`) || stems.some((stem) => key.startsWith(stem));
  assert.deepEqual(
    areas.flatMap((area) => Object.keys(texts("en", area)).filter((key) => !isUsed(key))),
    [],
  );
});

test("a call fills the holes of its text", () => {
  const english = Object.assign({}, ...areas.map((area) => texts("en", area))) as Record<string, string>;
  const files = readdirSync(SOURCE, { recursive: true, encoding: "utf8" }).filter((name) => /\.tsx?$/.test(name));
  const wrong: string[] = [];
  let numCalls = 0;
  for (const name of files) {
    const source = readFileSync(join(SOURCE, name), "utf8");
    for (const [call, key, values = ""] of source.matchAll(/\bt\(\s*"([a-z_.0-9]+)"(?:,\s*\{([^{}]*)\})?,?\s*\)/g)) {
      if (values.includes("...") || key === "key") continue;
      const given = [...values.replace(/\([^)]*\)/g, "").matchAll(/(?:^|,)\s*(\w+)/g)].map(([, hole]) => hole!).sort();
      if (given.join() !== holes(english[key!] ?? "").join()) wrong.push(`${name}: ${call}`);
      numCalls += 1;
    }
  }
  assert.deepEqual(wrong, []);
  assert.ok(numCalls > 300);
});

test("holes are filled as plain text, once; unknown holes stay", () => {
  const text = t("graph.wrong_type", { output: "{gives}", gives: "<b>", input: "$&", takes: "constructor" });
  assert.equal(text, "{gives} gives <b>, and $& takes constructor; link one of those.");
  assert.match(t("graph.wrong_type"), /^\{output\} gives/);
});

test("texts of another language are used, and English ones where it has none", () => {
  setTexts("de", { texts: { "graph.same_node": "Ein Knoten", "socket.width": "Breite" }, sentences: {} });
  assert.deepEqual([t("graph.same_node"), t("frame.yes")], ["Ein Knoten", "Yes"]);
  assert.deepEqual([word("socket", "width"), word("type", "width")], ["Breite", undefined]);
  setTexts("en");
  assert.match(t("graph.same_node"), /node/);
});

test("the browser's first language that we have is taken", () => {
  assert.equal(bestLanguage(["fr-FR", "de-AT", "en"]), "de");
  assert.equal(bestLanguage(["fr", "ja"]), "en");
  assert.equal(bestLanguage(["constructor"]), "en");
});
