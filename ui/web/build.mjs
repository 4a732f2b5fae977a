/** Builds `../static`: an ES module, a style sheet, the texts of other languages, and the licences of all that. */

import { readFile, readdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "../static");

const { metafile } = await build({
  absWorkingDir: here,
  entryPoints: [
    { in: "src/mount.tsx", out: "loom" },
    { in: "src/styles.css", out: "loom" },
  ],
  outdir: target,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  charset: "utf8",
  define: {
    "process.env.NODE_ENV": '"production"',
    "import.meta.env": "true",
    "import.meta.env.MODE": '"production"',
  },
  legalComments: "none",
  metafile: true,
  logLevel: "warning",
});

const packages = new Set();
for (const input of Object.keys(metafile.inputs)) {
  const found = /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
  if (found) packages.add(found[1]);
}
for (const language of ["de"]) {
  await writeFile(join(target, `loom.${language}.json`), await translation(language));
}
await writeFile(join(target, "THIRD_PARTY_LICENSES.txt"), await licences([...packages].sort()));
for (const [file, { bytes }] of Object.entries(metafile.outputs))
  console.log(`${file}  ${bytes.toLocaleString("en")} bytes`);

/** All that a language has. English is in the bundle; the others are read when they are chosen. */
async function translation(language) {
  const folder = join(here, "src/texts");
  const read = async (name) => JSON.parse(await readFile(join(folder, name), "utf8"));
  const areas = (await readdir(join(folder, language))).sort().map((name) => read(`${language}/${name}`));
  const texts = Object.assign({}, ...(await Promise.all(areas)), await read(`specs/${language}.json`));
  return JSON.stringify({ texts, sentences: await read(`sentences/${language}.json`) });
}

/** The licence texts of packages; a package without one ends the build. */
async function licences(names) {
  const texts = [];
  for (const name of names) {
    const folder = join(here, "node_modules", name);
    const { version, license } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    const file = (await readdir(folder)).sort().find((entry) => /^licen[cs]e(\.|$)/i.test(entry));
    if (!file) throw new Error(`${name} has no licence file; find out its terms before it is bundled`);
    const text = (await readFile(join(folder, file), "utf8")).replaceAll("\r\n", "\n").trim();
    texts.push(`${name} ${version} (${license})\n${"=".repeat(80)}\n\n${text}\n`);
  }
  return `Packages in loom.js and loom.css, with their licences.\n\n${texts.join("\n\n")}`;
}
