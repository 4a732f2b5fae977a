/** Sub-workflows: what a node that uses one shows of it, and nodes of a run that were unfolded from one. */

import type { Catalog, EditorGraph, InputSpec, NodeSpec, NodeState, SubFile, SubParam } from "../types";
import { specOf } from "./catalog";
import { own } from "./record";
import { isParamRef, splitTarget } from "./values";

export const SUB = "sub:";

type Subs = EditorGraph["subs"];
const known = new WeakMap<Subs, { catalog: Catalog; specs: Map<string, NodeSpec | undefined> }>();

export function isSub(type: string): boolean {
  return type.startsWith(SUB);
}

/** The sub-workflow that a node uses; undefined for an ordinary node. */
export function subOf(subs: Subs, type: string): SubFile | undefined {
  return isSub(type) ? own(subs, type.slice(SUB.length)) : undefined;
}

/** The spec of a node type of a workflow; undefined where it is neither installed nor one of its sub-workflows. */
export function specIn(subs: Subs, catalog: Catalog, type: string): NodeSpec | undefined {
  if (!isSub(type)) return specOf(catalog, type);
  let kept = known.get(subs);
  if (kept?.catalog !== catalog) known.set(subs, (kept = { catalog, specs: new Map() }));
  if (!kept.specs.has(type)) {
    kept.specs.set(type, undefined); // of one that contains itself
    const sub = subOf(subs, type);
    kept.specs.set(type, sub && subSpec(subs, catalog, type, sub));
  }
  return kept.specs.get(type);
}

function subSpec(subs: Subs, catalog: Catalog, type: string, sub: SubFile): NodeSpec {
  return {
    id: type,
    version: 1,
    title: sub.title || type.slice(SUB.length),
    category: "subs",
    help: sub.help ?? "",
    inputs: Object.entries(sub.params ?? {}).map(([name, param]) => inputOf(name, param, subs, catalog, sub)),
    outputs: Object.entries(sub.outputs ?? {}).map(([name, { from }]) => {
      const [node, socket] = splitTarget(from);
      const spec = specIn(subs, catalog, own(sub.nodes, node)?.type ?? "");
      return { name, type: spec?.outputs.find((output) => output.name === socket)?.type ?? "", help: "" };
    }),
    origin: "",
    is_output: Object.values(sub.nodes).some((node) => specIn(subs, catalog, node.type)?.is_output),
    uses_device: Object.values(sub.nodes).some((node) => specIn(subs, catalog, node.type)?.uses_device),
    is_kept: true,
    chosen_by: [],
  };
}

/** As the first socket has it that takes the param, where the param does not say otherwise. */
function inputOf(name: string, param: SubParam, subs: Subs, catalog: Catalog, sub: SubFile): InputSpec {
  for (const node of Object.values(sub.nodes)) {
    for (const [socket, value] of Object.entries(node.inputs ?? {})) {
      if (!isParamRef(value) || value.param !== name) continue;
      const found = specIn(subs, catalog, node.type)?.inputs.find((input) => input.name === socket);
      if (!found) continue;
      const { default: usual = null } = param;
      return {
        ...found,
        name,
        required: found.required && usual === null,
        default: usual ?? found.default,
        help: param.help || found.help,
      };
    }
  }
  const { type, default: usual = null, choices = [], help = "" } = param;
  const nothing = { min: null, max: null, step: null, widget: "" as const, advanced: false, auto: false };
  return { ...nothing, name, type, required: usual === null, default: usual, choices, help };
}

/** The node of the file that a node of a run comes from: "paint" of "paint/3/denoise". */
export function topOf(node: string): string {
  const slash = node.indexOf("/");
  return slash < 0 ? node : node.slice(0, slash);
}

/** The type of a node of a run, inside sub-workflows too; "" where this workflow has no such node. */
export function typeIn(
  { nodes, subs = {} }: { nodes: Readonly<Record<string, { type: string }>>; subs?: Subs },
  node: string,
): string {
  let inside: Readonly<Record<string, { type: string }>> = nodes;
  let type = "";
  for (const name of node.split("/").filter((part) => !/^\d+$/.test(part))) {
    type = own(inside, name)?.type ?? "";
    inside = subOf(subs, type)?.nodes ?? {};
  }
  return type;
}

const STRONGEST = ["failed", "running", "cancelled", "waiting", "skipped", "done", "cached"] as const;
const together = new WeakMap<object, Map<string, NodeState | null>>();

/** The node of a run without the numbers of elements: "paint/denoise" of "paint/3/denoise". */
export function plainName(node: string): string {
  return node.replace(/\/\d+(?=\/|$)/g, "");
}

type States = Readonly<Record<string, NodeState>>;
const grouped = new WeakMap<States, Map<string, [string, NodeState][]>>();

/** The nodes of a run that one of the file, or inside of a sub-workflow ("paint/denoise"), was unfolded to. */
function unfoldedTo(nodes: States, name: string): [string, NodeState][] {
  let groups = grouped.get(nodes);
  if (!groups) {
    grouped.set(nodes, (groups = new Map<string, [string, NodeState][]>()));
    for (const entry of Object.entries(nodes)) {
      const parts = entry[0].includes("/") ? plainName(entry[0]).split("/") : [];
      parts.forEach((_, index) => {
        const at = parts.slice(0, index + 1).join("/");
        const group = groups!.get(at);
        if (group) group.push(entry);
        else groups!.set(at, [entry]);
      });
    }
  }
  return groups.get(name) ?? [];
}

/** The state of a node of the file in a run: its own, or that of all the nodes that it was unfolded to. */
export function stateIn(nodes: States, name: string): NodeState | null {
  const single = own(nodes, name);
  if (single) return single;
  let kept = together.get(nodes);
  if (!kept) together.set(nodes, (kept = new Map()));
  if (!kept.has(name)) kept.set(name, summed(name, unfoldedTo(nodes, name)));
  return kept.get(name) ?? null;
}

function summed(name: string, inside: [string, NodeState][]): NodeState | null {
  const [first] = inside;
  if (!first) return null;
  const states = inside.map(([, node]) => node);
  const state = STRONGEST.find((each) => states.some((node) => node.state === each)) ?? "waiting";
  const isOne = states.length === 1;
  const isBegun = states.some((node) => node.state === "done");
  const shown = inside.find(([, node]) => node.state === state) ?? first;
  const over = states.filter((node) => ["done", "cached", "skipped"].includes(node.state)).length;
  return {
    ...shown[1],
    state: state === "waiting" && isBegun ? "running" : state,
    ...(isOne ? {} : { done: over, total: states.length }),
    seconds: states.reduce((sum, node) => sum + node.seconds, 0),
    message: state === "failed" && plainName(shown[0]) !== name ? `${shown[0]}: ${shown[1].message}` : shown[1].message,
    files: states.flatMap((node) => node.files),
    sounds: states.flatMap((node) => node.sounds),
    preview: Math.max(...states.map((node) => node.preview)),
  };
}

/** The node of a run that a picture of a node of the file comes from: of an unfolded one, the one that shows last. */
export function shownIn(nodes: Readonly<Record<string, NodeState>>, name: string): string {
  if (own(nodes, name)) return name;
  const inside = unfoldedTo(nodes, name).filter(([, node]) => node.preview > 0);
  return (inside.find(([, node]) => node.state === "running") ?? inside.at(-1))?.[0] ?? name;
}
