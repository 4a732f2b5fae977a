/** Builds `../static`: an ES module with the parts that it loads later, workers, a style sheet, the texts of other
languages, and the licences of all that. */

import { readFile, readdir, rm, writeFile } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "../static");

const common = {
  absWorkingDir: here,
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
  preserveSymlinks: true, // names of parts hang on their paths
  metafile: true,
  logLevel: "warning",
};
/** What is loaded later has its hash in its name: browsers may keep it for ever. */
const PART = /^loom\.\w+\.[0-9A-Z]{8}\.js$/;
for (const old of (await readdir(target).catch(() => [])).filter((name) => PART.test(name)))
  await rm(join(target, old));
const page = {
  ...common,
  entryPoints: [
    { in: "src/loom.ts", out: "loom" },
    { in: "src/styles.css", out: "loom" },
  ],
  splitting: true,
  chunkNames: "loom.[name].[hash]",
};
const made = await Promise.all([
  build({ ...page, plugins: [intoOne("./src/mount.tsx", await loadedLater(page))] }),
  build({ ...common, entryPoints: [{ in: "src/canvas/routes/worker.ts", out: "loom.router" }] }),
]);

const packages = new Set();
for (const input of made.flatMap(({ metafile }) => Object.keys(metafile.inputs))) {
  const found = /^node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
  if (found) packages.add(found[1]);
}
for (const language of ["de"]) {
  await writeFile(join(target, `loom.${language}.json`), await translation(language));
}
await writeFile(join(target, "THIRD_PARTY_LICENSES.txt"), await licences([...packages].sort()));
for (const [file, { bytes }] of made.flatMap(({ metafile }) => Object.entries(metafile.outputs)))
  console.log(`${file}  ${bytes.toLocaleString("en")} bytes`);

/** The modules that the page reads later, by `import()`: absolute paths. */
async function loadedLater(options) {
  const { metafile } = await build({ ...options, minify: false, write: false });
  const entries = Object.values(metafile.outputs).flatMap(({ entryPoint }) => entryPoint ?? []);
  const first = options.entryPoints.map((entry) => entry.in);
  return new Set(entries.filter((entry) => !first.includes(entry)).map((entry) => join(here, entry)));
}

/** esbuild makes a chunk of what the same entries need. Where all that is read later needs `core`, too, which is there
by then, all of the core is one chunk: else it is dozens, each a request before anything is drawn. */
function intoOne(core, later) {
  return {
    name: "into one",
    setup({ onLoad }) {
      onLoad({ filter: /\/src\/.*\.tsx?$/ }, async ({ path }) => {
        if (!later.has(path)) return undefined;
        const name = relative(dirname(path), join(here, core)).replaceAll("\\", "/");
        return { contents: `${await readFile(path, "utf8")}\nimport "${name}";`, loader: "tsx" };
      });
    },
  };
}

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
  return `Packages in loom.*, with their licences.\n\n${texts.join("\n\n")}`;
}
