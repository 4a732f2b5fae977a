/** Runs the tests: bundles test/*.test.ts for Node, then hands them to its test runner. What changes something global,
such as a stand-in for the browser, has a process of its own; the others share one, for each takes longer to begin than
most tests. With `CI` set, lines of what fails are those of the bundle. */

import { spawnSync } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const wanted = process.argv.slice(2);
const isMapped = process.env.CI !== "true";

const names = (await readdir(join(here, "test"))).filter((name) => name.endsWith(".test.ts"));
const chosen = names.filter((name) => !wanted.length || wanted.some((part) => name.includes(part)));
await mkdir(join(here, "build"), { recursive: true });
const out = await mkdtemp(join(here, "build/test-"));
const isGlobal = /globalThis|mock|"\.\/(browser|live)"/;
const texts = await Promise.all(chosen.map((name) => readFile(join(here, "test", name), "utf8")));
const alone = chosen.filter((_, index) => isGlobal.test(texts[index]));
const together = chosen.filter((name) => !alone.includes(name));
const shared = join(out, "together.ts");
await writeFile(shared, together.map((name) => `import "../../test/${name}";`).join("\n"));
const files = [...(together.length ? [shared] : []), ...alone.map((name) => join(here, "test", name))];
await build({
  absWorkingDir: here,
  entryPoints: files.map((file) => ({ in: file, out: basename(file, ".ts") })),
  outdir: out,
  outExtension: { ".js": ".mjs" },
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  jsx: "automatic",
  sourcemap: isMapped && "inline",
  logLevel: "warning",
  // React and zustand still call `require` on Node.
  banner: { js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);' },
});
const built = files.map((file) => join(out, basename(file, ".ts") + ".mjs"));
const { status } = spawnSync(process.execPath, ["--test", ...(isMapped ? ["--enable-source-maps"] : []), ...built], {
  cwd: here,
  stdio: "inherit",
});
await rm(out, { recursive: true });
process.exit(status ?? 1);
