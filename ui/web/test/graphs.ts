/** Graphs and a catalog for the tests. */

import { readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fromFile } from "../src/graph/file/workflowFile";
import type { Catalog, EditorGraph, GraphFile, InputSpec, NodeSpec } from "../src/types";

/** `test.mjs` runs the tests in ui/web. */
const WORKFLOWS = join(process.cwd(), "../../workflows");

/** Every workflow that the repository ships, by file name. */
export function shippedFiles(): [string, GraphFile][] {
  const paths = readdirSync(WORKFLOWS, { recursive: true, encoding: "utf8" }).filter((path) => path.endsWith(".json"));
  return paths.map((path) => [basename(path), JSON.parse(readFileSync(join(WORKFLOWS, path), "utf8")) as GraphFile]);
}

export function shipped(name: string): EditorGraph {
  const file = shippedFiles().find(([found]) => found === name)?.[1];
  if (!file) throw new Error(`no workflow ${name}`);
  return fromFile(file);
}

export function input(name: string, type: string, more: Partial<InputSpec> = {}): InputSpec {
  const nothing = { default: null, choices: [], min: null, max: null, step: null, help: "" };
  return { name, type, required: false, widget: "", advanced: false, auto: false, ...nothing, ...more };
}

export function spec(id: string, inputs: InputSpec[], outputs: Record<string, string>): NodeSpec {
  return {
    id,
    version: 1,
    title: id,
    category: "toy",
    help: "",
    inputs,
    outputs: Object.entries(outputs).map(([name, type]) => ({ name, type, help: "" })),
    origin: "",
    is_output: false,
    uses_device: false,
    is_kept: true,
    chosen_by: [],
  };
}

export const TOYS: Catalog = {
  version: "toys",
  types: ["Model", "Latents", "int", "float", "string", "choice"],
  nodes: [
    spec("Load", [input("source", "string", { default: "toy", help: "Which one" })], { model: "Model" }),
    spec("Whole", [input("value", "int", { default: 3, min: 0, max: 9 })], { int: "int" }),
    spec("Pick", [input("value", "choice", { default: "a", choices: ["a", "b"] })], { choice: "choice" }),
    spec(
      "Work",
      [
        input("model", "Model", { required: true }),
        input("latents", "Latents"),
        input("steps", "int", { default: 4 }),
        input("strength", "float", { default: 1 }),
        input("name", "string", { default: "" }),
        input("method", "choice", { default: "a", choices: ["a", "b"] }),
      ],
      { latents: "Latents" },
    ),
  ],
};

/** load -> first -> second, and a number. */
export function toyGraph(): EditorGraph {
  const link = (from: string) => ({ from });
  return fromFile({
    format: 1,
    name: "toy",
    nodes: {
      load: { type: "Load", version: 1 },
      whole: { type: "Whole", version: 1 },
      pick: { type: "Pick", version: 1 },
      first: { type: "Work", version: 1, inputs: { model: link("load.model") } },
      second: {
        type: "Work",
        version: 1,
        inputs: { model: link("load.model"), latents: link("first.latents"), steps: 7 },
      },
    },
    outputs: { result: link("second.latents") },
    layout: { load: [0, 0], whole: [0, 200], pick: [0, 400], first: [300, 0], second: [600, 0] },
  });
}
