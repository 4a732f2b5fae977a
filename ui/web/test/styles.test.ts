import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

const SOURCE = join(process.cwd(), "src");
const CLASS = /^\.[\w-]+$/;

/** The properties that a sheet gives to each class by itself, outside of `@media`. */
function rulesOf(css: string): [name: string, property: string][] {
  const plain = css.replace(/\/\*.*?\*\//gs, "").replace(/@[\w-]+[^{};]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}/g, "");
  return [...plain.matchAll(/([^{}]+)\{([^{}]*)\}/g)].flatMap(([, selectors = "", body = ""]) => {
    const properties = [...body.matchAll(/(?:^|;)\s*([\w-]+)\s*:/g)].map(([, property]) => property!);
    const names = selectors.split(",").map((each) => each.trim());
    return names.filter((name) => CLASS.test(name)).flatMap((name) => properties.map((each) => [name, each] as const));
  }) as [string, string][];
}

test("no two style sheets say of one class how it looks: the later one would win without a word", () => {
  const said = new Map<string, string>();
  const twice: string[] = [];
  for (const sheet of readdirSync(SOURCE, { recursive: true, encoding: "utf8" }).filter((name) =>
    name.endsWith(".css"),
  )) {
    for (const [name, property] of rulesOf(readFileSync(join(SOURCE, sheet), "utf8"))) {
      const before = said.get(`${name} ${property}`);
      if (before && before !== sheet) twice.push(`${name} { ${property} } in ${before} and ${sheet}`);
      said.set(`${name} ${property}`, sheet);
    }
  }
  assert.ok(said.size > 1000);
  assert.deepEqual(twice, []);
});
