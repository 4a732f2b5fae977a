/** Every edit of a graph: pure functions that give the graph back itself where nothing changes. */

export { align, distribute } from "./align";
export { arrange } from "./arrange";
export { arrangeGrouped } from "./arrangeGroups";
export { paste } from "../file/clip";
export { addBehind } from "./chain";
export { setEach } from "./each";
export { fold, unfold } from "./fold";
export { addGroup, addNote, setGroup, setNote } from "./frames";
export { fitGroups, growGroups, moveGrouped, setMembers, withMembers } from "./members";
export { addNode, rename, setCollapsed, setMode, setOutput, setShown, setTitle } from "./nodes";
export { exposeParam, giveValue, hideParam, renameParam, setParam } from "./params";
export { move, removeItems, resize, setColor } from "./places";
export { addReroute, moveReroute, removeReroute } from "./reroutes";
export { setSeedNew, withMovingSeeds } from "./seeds";
export { addWord } from "./triggers";
export { connect, disconnect, setInput } from "./wires";

import type { EditorGraph } from "../../types";
import { withFields } from "../record";

/** Change the workflow's name or description. */
export function describe(graph: EditorGraph, change: { name?: string; description?: string }): EditorGraph {
  return withFields(graph, change);
}
