/** Edits of what lies on the canvas, of any kind: move, resize, colour, remove. */

import type { EditorGraph, Point } from "../../types";
import { idsOf, itemKey } from "../items";
import { changeList, changeRecord, filterList, filterRecord, has, own, withFields } from "../record";
import { isLink, splitTarget } from "../values";
import { renameMembers } from "./frames";
import { changeNodes } from "./nodes";
import { removeReroute, tidyReroutes } from "./reroutes";
import { disconnect } from "./wires";

type Frame = { id: string; color: string; rect: [number, number, number, number] };

/** Put nodes, groups, notes and reroutes (by item key) to their new places. */
export function move(graph: EditorGraph, places: Readonly<Record<string, Point>>): EditorGraph {
  const place = (key: string, at: Point): Point => {
    const next = own(places, key);
    return !next || (next[0] === at[0] && next[1] === at[1]) ? at : next;
  };
  return withFields(
    changeFrames(graph, (key, { rect: [x, y, ...size] }) => ({ rect: [...place(key, [x, y]), ...size] })),
    {
      nodes: changeRecord(graph.nodes, (node, name) => withFields(node, { at: place(itemKey("node", name), node.at) })),
      reroutes: changeRecord(graph.reroutes, (reroute, id) =>
        withFields(reroute, { at: place(itemKey("reroute", id), reroute.at) }),
      ),
    },
  );
}

/** Give a node, group or note (by item key) a size; and a place, where it grew to the left or up. */
export function resize(graph: EditorGraph, key: string, size: Point, at?: Point): EditorGraph {
  const moved = at ? move(graph, { [key]: at }) : graph;
  const sized = changeNodes(moved, idsOf([key], "node"), (node) => ({ ...node, size }));
  return changeFrames(sized, (other, { rect: [x, y, ...old] }) => ({ rect: [x, y, ...(other === key ? size : old)] }));
}

/** Colour nodes, groups and notes; "" is the ordinary colour. */
export function setColor(graph: EditorGraph, keys: Iterable<string>, color: string): EditorGraph {
  const wanted = new Set(keys);
  const colored = changeNodes(graph, idsOf(wanted, "node"), (node) => {
    const { color: was = "", ...plain } = node;
    if (was === color) return node;
    return color ? { ...plain, color } : plain;
  });
  return changeFrames(colored, (key, frame) => ({ color: wanted.has(key) ? color : frame.color }));
}

/** Remove what the keys name, and with a node its wires and declared outputs. A group's nodes stay. */
export function removeItems(graph: EditorGraph, keys: Iterable<string>): EditorGraph {
  const all = new Set(keys);
  const unwired = idsOf(all, "wire").reduce(disconnect, graph);
  const direct = idsOf(all, "reroute").reduce(removeReroute, unwired);
  const left = withoutNodes(direct, new Set(idsOf(all, "node")));
  return withFields(left, {
    groups: renameMembers(
      filterList(left.groups, (group) => !all.has(itemKey("group", group.id))),
      (key) => (all.has(key) ? "" : key),
    ),
    notes: filterList(left.notes, (note) => !all.has(itemKey("note", note.id))),
  });
}

/** Change groups and notes alike. */
function changeFrames(graph: EditorGraph, change: (key: string, frame: Frame) => Partial<Frame>): EditorGraph {
  const changed = <F extends Frame>(kind: "group" | "note", frame: F): F => {
    const fields = change(itemKey(kind, frame.id), frame);
    const isSame = !fields.rect || fields.rect.every((number, index) => number === frame.rect[index]);
    return withFields(frame, (isSame ? { ...fields, rect: frame.rect } : fields) as Partial<F>);
  };
  return withFields(graph, {
    groups: changeList(graph.groups, (group) => changed("group", group)),
    notes: changeList(graph.notes, (note) => changed("note", note)),
  });
}

function withoutNodes(graph: EditorGraph, names: ReadonlySet<string>): EditorGraph {
  if (![...names].some((name) => has(graph.nodes, name))) return graph;
  const isGone = (target: string): boolean => names.has(splitTarget(target)[0]);
  const nodes = filterRecord(graph.nodes, (_, name) => !names.has(name));
  const kept = changeRecord(nodes, (node) => {
    const inputs = filterRecord(node.inputs, (value) => !(isLink(value) && isGone(value.from)));
    return Object.keys(inputs).length === Object.keys(node.inputs).length ? node : { ...node, inputs };
  });
  const outputs = filterRecord(graph.outputs, (link) => !isGone(link.from));
  return tidyReroutes({ ...graph, nodes: kept, outputs, rest: filterRecord(graph.rest, (_, key) => !names.has(key)) });
}
