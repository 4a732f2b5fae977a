import { canFeed } from "../../graph/wireTypes";
import { useEditor } from "../../store/editor";
import { useCanvasUi } from "../canvasUi";

/** While a wire is in hand, sockets that it cannot go to fade: one style rule instead of drawing every socket anew. */
export function FitTones() {
  const wire = useCanvasUi((ui) => ui.wire);
  const catalog = useEditor((state) => state.catalog);
  if (!wire) return null;
  const isOutput = wire.side === "output";
  const types = new Set(
    catalog.nodes.flatMap((spec) => (isOutput ? spec.inputs : spec.outputs).map((socket) => socket.type)),
  );
  const fits = [...types].filter((type) => (isOutput ? canFeed(wire.type, type) : canFeed(type, wire.type)));
  const kind = isOutput ? ".target" : ".source";
  const wanted = fits.map((type) => `.ll-handle${kind}[data-type="${CSS.escape(type)}"] .ll-dot`).join(", ");
  const rules = [
    ".ll-canvas .ll-handle .ll-dot { opacity: 0.22; }",
    wanted ? `.ll-canvas :is(${wanted}) { opacity: 1; transform: scale(1.35); }` : "",
  ];
  return <style>{rules.join("\n")}</style>;
}
