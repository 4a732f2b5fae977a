/** Commands that make nodes and wires. */

import { titleOf } from "../../graph/catalog";
import { addReroute, connect, disconnect, addNode, withMovingSeeds } from "../../graph/edits";
import { itemKey } from "../../graph/items";
import { freshName, nameFrom } from "../../graph/names";
import { has } from "../../graph/record";
import { specIn } from "../../graph/subs";
import { splitTarget } from "../../graph/values";
import { canConnect, canFeed, fitting } from "../../graph/wireTypes";
import { t } from "../../i18n";
import { edit, editorStore, select, toldTitle } from "../../store/editor";
import { newSize } from "../../store/settings";
import type { EditorGraph, InputSpec, OutputSpec, Point } from "../../types";
import { canvasUi, say, type WireEnd } from "../canvasUi";
import { showNew } from "./focusItem";

/** What a picture is painted on. */
const CANVAS = "LoomEmptyLatents";

/** Link an output (or "$id" of a reroute) to an input; where that is not allowed, say why at a place in the window. */
export function link(from: string, to: string, place?: { x: number; y: number }): boolean {
  const { graph, catalog } = editorStore.getState();
  const reason = canConnect(graph, catalog, from, to);
  if (reason) {
    refuse(reason, place);
    return false;
  }
  edit(t("canvas.connect"), (last) => connect(last, from, to));
  const [source, target] = [splitTarget(from), splitTarget(to)];
  say(
    t("canvas.connected", {
      from: `${titleOf(graph, catalog, source[0])} ${source[1]}`,
      to: `${titleOf(graph, catalog, target[0])} ${target[1]}`,
    }),
  );
  return true;
}

export function refuse(text: string, place?: { x: number; y: number }): void {
  say(text);
  if (place) canvasUi.setState({ refusal: { text, ...place } });
}

/** Move the end of a wire to another input. */
export function relink(old: string, from: string, to: string, place?: { x: number; y: number }): void {
  if (old === to) return;
  const { graph, catalog } = editorStore.getState();
  const reason = canConnect(graph, catalog, from, to);
  if (reason) refuse(reason, place);
  else edit(t("canvas.connect"), (last) => disconnect(connect(last, from, to), old));
}

export function unlink(input: string): void {
  edit(t("canvas.disconnect"), (graph) => disconnect(graph, input));
  say(t("canvas.disconnected"));
}

/** Add a node; where a wire waits for it, link it. Selects the node and gives it the focus. */
export function putNode(type: string, at: Point, wire: WireEnd | null): void {
  const { catalog, graph } = editorStore.getState();
  const spec = specIn(graph.subs, catalog, type);
  if (!spec) return;
  let name = "";
  edit(t("canvas.add_node", { node: spec.title }), (graph) => {
    name = freshName(nameFrom(toldTitle(type)), (taken) => has(graph.nodes, taken));
    const inputs = type === CANVAS ? newSize() : {};
    const added = withMovingSeeds(addNode(graph, { name, spec, at, inputs }), catalog, [name]);
    const socket = wire && fitting(catalog, wire).find((fit) => fit.spec.id === type)?.socket;
    if (!wire || !socket) return added;
    const [from, to] = wire.side === "output" ? [wire.name, `${name}.${socket}`] : [`${name}.${socket}`, wire.name];
    return canConnect(added, catalog, from, to) ? added : connect(added, from, to);
  });
  const key = itemKey("node", name);
  showNew(key);
  canvasUi.setState({ fresh: { node: key, selection: editorStore.getState().selection } });
  say(t("canvas.added", { node: spec.title }));
}

/** Put a reroute into the wire of an input. */
export function putReroute(input: string, at: Point): void {
  let id = "";
  edit(t("canvas.add_reroute"), (graph) => {
    id = freshName("r1", (taken) => has(graph.reroutes, taken));
    return addReroute(graph, { id, input, at });
  });
  select([itemKey("reroute", id)]);
}

export interface FreeEnd {
  node: string;
  title: string;
  socket: InputSpec | OutputSpec;
  /** Linked already. */
  from: string | null;
}

/** The sockets that an end of a wire can go to, in the graph as it is. */
export function endsFor(wire: WireEnd): FreeEnd[] {
  const { graph, catalog } = editorStore.getState();
  return Object.entries(graph.nodes).flatMap(([node, { type, inputs }]) => {
    const spec = specIn(graph.subs, catalog, type);
    const sockets: (InputSpec | OutputSpec)[] = (wire.side === "output" ? spec?.inputs : spec?.outputs) ?? [];
    return sockets
      .filter((socket) => isAllowed(graph, wire, `${node}.${socket.name}`, socket.type))
      .map((socket) => ({
        node,
        title: titleOf(graph, catalog, node),
        socket,
        from: linkedFrom(inputs[socket.name], wire),
      }));
  });
}

function isAllowed(graph: EditorGraph, wire: WireEnd, other: string, type: string): boolean {
  const [gives, takes] = wire.side === "output" ? [wire.type, type] : [type, wire.type];
  const [from, to] = wire.side === "output" ? [wire.name, other] : [other, wire.name];
  return canFeed(gives, takes) && canConnect(graph, editorStore.getState().catalog, from, to) === "";
}

function linkedFrom(value: unknown, wire: WireEnd): string | null {
  const isLinked = wire.side === "output" && typeof value === "object" && value !== null && "from" in value;
  return isLinked ? String((value as { from: unknown }).from) : null;
}

/** The socket of a node that a wire dropped on the node's body goes to: the first free one that fits. */
export function bestEnd(wire: WireEnd, node: string): FreeEnd | undefined {
  const ends = endsFor(wire).filter((end) => end.node === node);
  return (
    ends.find((end) => end.from === null && end.socket.type === wire.type) ??
    ends.find((end) => end.from === null) ??
    ends[0]
  );
}
