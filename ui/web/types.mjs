/** Writes `src/generated/contract.ts`: the types of what the server says and takes, from its schema of them. */

import { readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { compile } from "json-schema-to-typescript";

const here = dirname(fileURLToPath(import.meta.url));
const schema = JSON.parse(await readFile(join(here, "contract.schema.json"), "utf8"));
const text = await compile({ title: "Contract", ...schema }, "Contract", {
  unreachableDefinitions: true, additionalProperties: false, bannerComment: "", style: {printWidth: 120},
});
await writeFile(join(here, "src/generated/contract.ts"), text);
