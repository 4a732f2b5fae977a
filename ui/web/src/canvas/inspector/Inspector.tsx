import { idsOf } from "../../graph/items";
import { useEditor } from "../../store/editor";
import { GroupsPanel } from "./GroupsPanel";
import { NodesPanel } from "./NodesPanel";
import { WorkflowPanel } from "./WorkflowPanel";

/** What is selected, to be edited; the workflow itself while nothing is. */
export function Inspector() {
  const selection = useEditor((state) => state.selection);
  const nodes = useEditor((state) => state.graph.nodes);
  const names = idsOf(selection, "node").filter((name) => Object.hasOwn(nodes, name));
  const frames = [...selection].filter((key) => key.startsWith("g:") || key.startsWith("c:"));
  return <div className="ll-inspector">{panelOf(names, frames)}</div>;
}

function panelOf(names: readonly string[], frames: readonly string[]) {
  if (names.length) return <NodesPanel names={names} />;
  return frames.length ? <GroupsPanel keys={frames} /> : <WorkflowPanel />;
}
