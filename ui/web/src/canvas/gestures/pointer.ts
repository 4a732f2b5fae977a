/** What the pointer does on the canvas, as commands: wires, menus, the palette. */

import type { Connection, FinalConnectionState, HandleType, Node, OnConnectStartParams } from "@xyflow/react";
import {
  useMemo,
  type MouseEvent as ReactMouseEvent,
  type PointerEvent as ReactPointerEvent,
  type UIEvent as ReactUIEvent,
} from "react";
import { itemKey, parseItem } from "../../graph/items";
import { splitTarget } from "../../graph/values";
import { canConnect } from "../../graph/wireTypes";
import { t } from "../../i18n";
import { editorStore, select } from "../../store/editor";
import { hold } from "../../holding";
import { keepView, type View } from "../../store/tabs";
import { canvasUi, notePointer, onCanvas, openPopup, type Target } from "../canvasUi";
import { goIn } from "../commands/subCommands";
import { bestEnd, link, putReroute, refuse, relink, unlink } from "../commands/wireCommands";
import { endName, type WireEdge } from "../flow/flowEdges";
import { wireEndOf } from "../wires/wireEnd";
import { spokenType } from "../../parts/format";

interface Place {
  x: number;
  y: number;
}

export function placeOf(event: MouseEvent | TouchEvent | ReactMouseEvent): Place {
  const point = "changedTouches" in event ? event.changedTouches[0] : event;
  return { x: point?.clientX ?? 0, y: point?.clientY ?? 0 };
}

/** React Flow's event handlers; none of them reads what changes, so they never change themselves. */
export function useCanvasEvents() {
  return useMemo(makeEvents, []);
}

function makeEvents() {
  /** The wire being moved by its end, until it is dropped. */
  let moved: WireEdge | null = null;
  let isDone = false;
  let isCancelled = false;
  let place: Place = { x: 0, y: 0 };

  /** Escape lets go of the wire in hand, and leaves everything as it was. */
  const onEscape = (event: KeyboardEvent): void => {
    if (event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    isCancelled = true;
    canvasUi
      .getState()
      .box?.getRootNode()
      .dispatchEvent(new MouseEvent("mouseup", { bubbles: true }));
  };

  const isValidConnection = (wire: Connection | WireEdge): boolean => {
    const { graph, catalog } = editorStore.getState();
    const from = endName(wire.source, wire.sourceHandle ?? "");
    return canConnect(graph, catalog, from, endName(wire.target, wire.targetHandle ?? "")) === "";
  };

  return {
    isValidConnection,
    onConnectStart: (_event: MouseEvent | TouchEvent, { nodeId, handleId, handleType }: OnConnectStartParams) => {
      isCancelled = false;
      window.addEventListener("keydown", onEscape, true);
      startWire(nodeId, handleId, handleType);
    },
    onConnect: (wire: Connection) => {
      if (moved || isCancelled) return;
      link(endName(wire.source, wire.sourceHandle ?? ""), endName(wire.target, wire.targetHandle ?? ""), place);
    },
    onConnectEnd: (event: MouseEvent | TouchEvent, state: FinalConnectionState) => {
      place = placeOf(event);
      window.removeEventListener("keydown", onEscape, true);
      canvasUi.setState({ wire: null });
      if (!moved && !isCancelled) dropWire(state, place);
    },
    onClickConnectStart: (_event: unknown, { nodeId, handleId, handleType }: OnConnectStartParams) => {
      startWire(nodeId, handleId, handleType);
    },
    onClickConnectEnd: (event: MouseEvent | TouchEvent) => {
      explainClick(event);
      canvasUi.setState({ wire: null });
    },
    onReconnectStart: (_event: unknown, edge: WireEdge) => {
      moved = edge;
      isDone = false;
    },
    onReconnect: (edge: WireEdge, wire: Connection) => {
      if (isCancelled) return;
      isDone = true;
      const from = endName(wire.source, wire.sourceHandle ?? "");
      relink(edge.id.slice(2), from, endName(wire.target, wire.targetHandle ?? ""));
    },
    onReconnectEnd: (
      event: MouseEvent | TouchEvent,
      edge: WireEdge,
      _type: HandleType,
      state: FinalConnectionState,
    ) => {
      if (!isDone && !isCancelled) dropTaken(edge.id.slice(2), state, placeOf(event));
      moved = null;
      canvasUi.setState({ wire: null });
    },
    onNodeDoubleClick: (event: ReactMouseEvent, node: Node) => {
      const item = parseItem(node.id);
      const isOnControl = event.target instanceof Element && event.target.closest("button, input, textarea, select, a");
      if (item?.kind === "node" && !isOnControl) goIn(item.id);
    },
    onNodeContextMenu: (event: ReactMouseEvent, node: Node) => openMenu(event, targetOf(node.id, event), node.id),
    onSelectionContextMenu: (event: ReactMouseEvent, nodes: Node[]) => {
      openMenu(event, targetOf(nodes[0]?.id ?? "", event), nodes[0]?.id ?? "");
    },
    onEdgeContextMenu: (event: ReactMouseEvent, edge: WireEdge) => {
      openMenu(event, { kind: "wire", socket: edge.id.slice(2) }, edge.id);
    },
    onEdgeDoubleClick: (event: ReactMouseEvent, edge: WireEdge) => {
      if (edge.selectable) putReroute(edge.id.slice(2), onCanvas(placeOf(event)));
    },
    onPaneContextMenu: (event: MouseEvent | ReactMouseEvent) => openMenu(event, { kind: "canvas" }, ""),
    onDoubleClick: (event: ReactMouseEvent) => {
      if (!(event.target instanceof Element) || !event.target.classList.contains("react-flow__pane")) return;
      const at = placeOf(event);
      openPopup({ kind: "palette", ...at, flow: onCanvas(at), wire: null });
    },
    onMouseDownCapture: takeOff,
    onPointerMoveCapture: (event: ReactPointerEvent) =>
      notePointer(event.pointerType === "mouse" ? placeOf(event) : null),
    onPointerLeave: () => notePointer(null),
    onNodeMouseEnter: (_event: unknown, node: Node) => hover(node.id),
    onNodeMouseLeave: () => hover(""),
    onScrollCapture: panAlong,
    // Not as it starts: a click starts one too, and the end of a zoom may come in a drag, whose start is not told then.
    onMove: (event: Event | null) => setMoving(true, event?.type === "mousemove"),
    onMoveEnd: (_event: unknown, view: View) => {
      setMoving(false);
      keepView(view);
    },
  };
}

/** What the browser scrolls into view, as for a field that Tab goes to, the view moves to: React Flow scrolls back. */
function panAlong({ target, currentTarget }: ReactUIEvent): void {
  const { flow } = canvasUi.getState();
  if (!flow || target !== currentTarget) return; // a list in a node
  const { scrollLeft, scrollTop } = currentTarget;
  const { x, y, zoom } = flow.getViewport();
  if (scrollLeft || scrollTop) void flow.setViewport({ x: x - scrollLeft, y: y - scrollTop, zoom });
}

const REST_MS = 90;
let resting: ReturnType<typeof setTimeout> | undefined;

/** Only where the pointer rests: nodes that it passes over light no wires. */
function hover(key: string): void {
  clearTimeout(resting);
  if (!key) canvasUi.setState({ hovered: "" });
  else resting = setTimeout(() => canvasUi.setState({ hovered: key }), REST_MS);
}

/** While the view moves, the browser keeps what it has painted; React has no part in it, and runs have little. */
function setMoving(isNow: boolean, isDragged = false): void {
  const { isMoving, box } = canvasUi.getState();
  box?.toggleAttribute("data-dragged", isDragged);
  if (isNow === isMoving) return;
  canvasUi.setState({ isMoving: isNow });
  hold(isNow);
  box?.toggleAttribute("data-moving", isNow);
}

function startWire(node: string | null, handle: string | null, type: HandleType | null): void {
  canvasUi.setState({
    wire: node && type ? wireEndOf(node, handle ?? "", type) : null,
    refusal: null,
  });
}

/** Dropped on empty space: the palette of what fits. On a node: its first socket that fits. */
function dropWire(state: FinalConnectionState, place: Place): void {
  const { fromNode, fromHandle } = state;
  const wire = fromNode && fromHandle ? wireEndOf(fromNode.id, fromHandle.id ?? "", fromHandle.type) : null;
  if (!wire || state.isValid) return;
  if (state.toHandle) {
    explain(state, place);
    return;
  }
  const node = nodeUnder(place);
  if (node) dropOn(node, wire, place);
  else openPopup({ kind: "palette", ...place, flow: onCanvas(place), wire });
}

/** A linked input does not begin a wire: it gives the one that it has. */
function takeOff(event: ReactMouseEvent): void {
  const handle =
    event.target instanceof Element ? event.target.closest<HTMLElement>(".react-flow__handle.target") : null;
  const { nodeid: node, handleid: socket } = handle?.dataset ?? {};
  if (!node || event.button !== 0) return;
  const key = itemKey("wire", endName(node, socket ?? ""));
  const end = canvasUi
    .getState()
    .box?.querySelector(`.react-flow__edge[data-id="${CSS.escape(key)}"] .react-flow__edgeupdater-target`);
  if (!end) return;
  event.stopPropagation();
  const { clientX, clientY } = event;
  end.dispatchEvent(new MouseEvent("mousedown", { bubbles: true, button: 0, clientX, clientY }));
}

/** A wire that was taken off an input: on nothing it is unplugged, on a node it goes to a socket that fits. */
function dropTaken(input: string, state: FinalConnectionState, place: Place): void {
  if (state.toHandle) return explain(state, place);
  const node = nodeUnder(place);
  const { fromNode, fromHandle } = state;
  const wire = fromNode && fromHandle ? wireEndOf(fromNode.id, fromHandle.id ?? "", fromHandle.type) : null;
  if (!node || !wire) unlink(input);
  else if (node !== splitTarget(input)[0]) {
    const end = bestEnd(wire, node);
    if (end) relink(input, wire.name, `${node}.${end.socket.name}`, place);
    else refuse(t("canvas.nothing_fits", { type: wire.type }), place);
  }
}

/** The name of the node at a place in the window. */
function nodeUnder(place: Place): string | undefined {
  const below = canvasUi.getState().box?.getRootNode() as Document | ShadowRoot | undefined;
  const node = below?.elementFromPoint(place.x, place.y)?.closest<HTMLElement>(".react-flow__node");
  const item = node?.dataset.id ? parseItem(node.dataset.id) : null;
  return item?.kind === "node" ? item.id : undefined;
}

function dropOn(node: string, wire: NonNullable<ReturnType<typeof wireEndOf>>, place: Place): void {
  const end = bestEnd(wire, node);
  if (!end) {
    if (!wire.name.startsWith(`${node}.`)) refuse(t("canvas.nothing_fits", { type: spokenType(wire.type) }), place);
    return;
  }
  const other = `${node}.${end.socket.name}`;
  link(wire.side === "output" ? wire.name : other, wire.side === "output" ? other : wire.name, place);
}

/** Why a wire may not end where it was dropped. */
function explain({ fromNode, fromHandle, toNode, toHandle }: FinalConnectionState, place: Place): void {
  if (!fromNode || !fromHandle || !toNode || !toHandle) return;
  const ends = [endName(fromNode.id, fromHandle.id ?? ""), endName(toNode.id, toHandle.id ?? "")] as const;
  if (ends[0] === ends[1] && fromHandle.type === toHandle.type) return;
  refuse(reasonBetween(ends, fromHandle.type, toHandle.type), place);
}

export function reasonBetween(ends: readonly [string, string], from: HandleType, to: HandleType): string {
  if (from === to) return t(from === "source" ? "canvas.both_outputs" : "canvas.both_inputs");
  const { graph, catalog } = editorStore.getState();
  return from === "source"
    ? canConnect(graph, catalog, ends[0], ends[1])
    : canConnect(graph, catalog, ends[1], ends[0]);
}

/** After two taps: React Flow does not tell whether the second one was allowed. */
function explainClick(event: MouseEvent | TouchEvent): void {
  const { wire } = canvasUi.getState();
  const handle = event.target instanceof HTMLElement ? event.target.closest<HTMLElement>(".react-flow__handle") : null;
  const { nodeid: node, handleid: socket } = handle?.dataset ?? {};
  if (!wire || !handle || !node) return;
  const to = handle.classList.contains("source") ? "source" : "target";
  const end = endName(node, socket ?? "");
  const from = wire.side === "output" ? "source" : "target";
  if (end === wire.name && from === to) return;
  const reason = reasonBetween([wire.name, end], from, to);
  if (reason) refuse(reason, placeOf(event));
}

function openMenu(event: MouseEvent | ReactMouseEvent, target: Target, key: string): void {
  event.preventDefault();
  if (key && !editorStore.getState().selection.has(key)) select([key]);
  const place = placeOf(event);
  openPopup({ kind: "menu", ...place, flow: onCanvas(place), target });
}

/** What a menu of an item on the canvas is about; on a row of a node, also that socket. */
export function targetOf(key: string, event?: { target: EventTarget | null }): Target {
  const item = parseItem(key);
  if (item?.kind === "node") {
    const row = event?.target instanceof Element ? event.target.closest<HTMLElement>("[data-socket]") : null;
    return { kind: "node", name: item.id, socket: row?.dataset.socket };
  }
  if (item?.kind === "wire") return { kind: "wire", socket: item.id };
  return item ? { kind: item.kind, id: item.id } : { kind: "canvas" };
}
