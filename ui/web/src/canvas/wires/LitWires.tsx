import { isLink, splitTarget } from "../../graph/values";
import { itemKey } from "../../graph/items";
import { useEditor } from "../../store/editor";
import type { EditorGraph } from "../../types";
import { useCanvasUi } from "../canvasUi";

/** The wires of the selected nodes, or of the one under the pointer, stand out from all others: one style rule instead
of drawing every wire anew. */
export function LitWires() {
  const hovered = useCanvasUi((ui) => ui.hovered);
  const selection = useEditor((state) => state.selection);
  const graph = useEditor((state) => state.graph);
  const chosen = hovered ? [hovered] : [...selection].filter((key) => key.startsWith("n:"));
  const lit = wiresOf(graph, new Set(chosen.map((key) => key.slice(2))));
  if (lit.length === 0) return null;
  const edges = lit.map((key) => `[data-id="${CSS.escape(key)}"]`).join(", ");
  const rules = [
    ".ll-canvas .react-flow__edge .ll-wire { stroke-opacity: 0.16; }",
    `.ll-canvas .react-flow__edge:is(${edges}) .ll-wire { stroke-opacity: 1; stroke-width: 3; }`,
  ];
  return <style>{rules.join("\n")}</style>;
}

/** The keys of all wires that end at a node or begin there, with the ways over reroutes. */
function wiresOf(graph: EditorGraph, nodes: ReadonlySet<string>): string[] {
  const reroutes = new Set<string>();
  const wires = Object.entries(graph.nodes).flatMap(([name, node]) =>
    Object.entries(node.inputs).flatMap(([socket, value]) => {
      if (!isLink(value) || !(nodes.has(name) || nodes.has(splitTarget(value.from)[0]))) return [];
      const target = `${name}.${socket}`;
      let via = graph.via[target];
      while (via !== undefined && !reroutes.has(via)) {
        reroutes.add(via);
        const from = graph.reroutes[via]?.from ?? "";
        via = from.startsWith("$") ? from.slice(1) : undefined;
      }
      return [itemKey("wire", target)];
    }),
  );
  return [...wires, ...[...reroutes].map((id) => `e:$${id}`)];
}
