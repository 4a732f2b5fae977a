/** Writes `src/generated/contract.ts`: the types of all bodies that server and page exchange, from their schema. */

import { readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { compile } from "json-schema-to-typescript";

const here = dirname(fileURLToPath(import.meta.url));
const banner = `/** Made by \`npm run types\` from \`contract.schema.json\`, which \`ui/contract\` defines: change it there. */

import type { Json } from "../types/values";
import type { GraphFile } from "../types/workflow";
`;

/** What may be anything is JSON here, not \`unknown\`. */
const known = (key, value) => (key === "additionalProperties" && value === true ? { tsType: "Json" } : value);

const schema = JSON.parse(await readFile(join(here, "contract.schema.json"), "utf8"), known);
const names = Object.keys(schema.$defs);
const properties = Object.fromEntries(names.map((name) => [name, { $ref: `#/$defs/${name}` }]));
const index = {
  ...schema,
  type: "object",
  description: "What server and page say to each other, by its name.",
  properties,
  required: names,
};
const text = await compile(index, "Contract", {
  additionalProperties: false,
  bannerComment: banner,
  style: { bracketSpacing: true, printWidth: 120, trailingComma: "all" },
});
await writeFile(join(here, "src/generated/contract.ts"), text);
