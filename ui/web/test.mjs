/** Runs the tests: bundles each test/*.test.ts for Node, then hands all to its test runner. */

import { spawnSync } from "node:child_process";
import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const wanted = process.argv.slice(2);

const names = (await readdir(join(here, "test"))).filter((name) => name.endsWith(".test.ts"));
const chosen = names.filter((name) => !wanted.length || wanted.some((part) => name.includes(part)));
await mkdir(join(here, "build"), { recursive: true });
const out = await mkdtemp(join(here, "build/test-"));
await build({
  absWorkingDir: here,
  entryPoints: chosen.map((name) => join("test", name)),
  outdir: out,
  outExtension: { ".js": ".mjs" },
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  jsx: "automatic",
  sourcemap: "inline",
  logLevel: "warning",
  // React and zustand still call `require` on Node.
  banner: { js: 'import { createRequire } from "node:module"; const require = createRequire(import.meta.url);' },
});
const files = chosen.map((name) => join(out, name.replace(/\.ts$/, ".mjs")));
const { status } = spawnSync(process.execPath, ["--test", "--enable-source-maps", ...files], {
  cwd: here,
  stdio: "inherit",
});
await rm(out, { recursive: true });
process.exit(status ?? 1);
