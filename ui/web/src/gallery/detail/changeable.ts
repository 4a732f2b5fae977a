/** What of the workflow that made a result can be changed to make another. */
import { isDigits, limitOf } from "../../exact";
import type { GraphFile, InputSpec, Json } from "../../types";

/** What one can change to run it again: the declared params, or the seeds where no param is the seed. */
export function changeable(graph: GraphFile): string[] {
  const params = Object.keys(graph.params ?? {});
  if (params.includes("seed")) return params;
  const seeds = Object.entries(graph.nodes)
    .filter(([, node]) => isNumber(node.inputs?.seed))
    .map(([name]) => `${name}.seed`);
  return [...params, ...seeds];
}

/** What `name` of `changeable` takes, for the field that changes it. */
export function inputOf(graph: GraphFile, name: string): InputSpec | undefined {
  const param = graph.params?.[name];
  const shared = { name, required: false, step: null, advanced: false, auto: false };
  if (param) {
    const { type, choices = [], min = null, max = null, help = "" } = param;
    return {
      ...shared,
      type,
      default: param.default ?? null,
      choices,
      min: limitOf(min),
      max: limitOf(max),
      help,
      widget: widgetOf(name, type),
    };
  }
  if (!name.endsWith(".seed")) return undefined;
  return { ...shared, type: "int", default: 0, choices: [], min: 0, max: null, help: "", widget: "seed" };
}

/** The value that a graph gives to `name` of `changeable`. */
export function valueOf(graph: GraphFile, name: string): Json {
  const param = graph.params?.[name];
  if (param) return param.default ?? null;
  const [node = "", socket = ""] = name.split(".");
  const value = graph.nodes[node]?.inputs?.[socket];
  return isNumber(value) ? value : null;
}

function widgetOf(name: string, type: string): InputSpec["widget"] {
  if (name === "seed" && type === "int") return "seed";
  return type === "string" && name.includes("prompt") ? "multiline" : "";
}

function isNumber(value: unknown): value is number | string {
  return typeof value === "number" || isDigits(value);
}
