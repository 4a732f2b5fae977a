/** What the canvas shows for the moment: popups, the tool in hand, the outline. Nothing of it is saved. */

import type { ReactFlowInstance } from "@xyflow/react";
import { useStore } from "zustand";
import { createStore } from "zustand/vanilla";
import type { Point } from "../types";
import type { WireEdge } from "./flow/flowEdges";
import type { CanvasNode } from "./flow/flowNodes";

/** An end of a wire that something has to be found for: an output looks for inputs and the other way round. */
export interface WireEnd {
  /** "node.socket", or "$id" of the reroute that the wire comes from. */
  name: string;
  side: "input" | "output";
  type: string;
}

export type Target =
  | { kind: "canvas" }
  | { kind: "node"; name: string; socket?: string | undefined }
  | { kind: "group"; id: string }
  | { kind: "note"; id: string }
  | { kind: "reroute"; id: string }
  | { kind: "wire"; socket: string };

interface Place {
  /** In the window. */
  x: number;
  y: number;
}

export type Popup =
  | ({ kind: "palette"; flow: Point; wire: WireEnd | null } & Place)
  | ({ kind: "sockets"; node: string } & Place)
  | ({ kind: "colors"; keys: string[] } & Place)
  | ({ kind: "align" } & Place)
  | ({ kind: "copy_as"; names: string[] } & Place)
  | ({ kind: "menu"; flow: Point; target: Target } & Place);

export type Tool = "pan" | "select";

interface CanvasUi {
  popup: Popup | null;
  tool: Tool;
  isOutlineOpen: boolean;
  isMapOpen: boolean;
  /** What is looked for on the canvas; null while that is closed. `at` is the hit that was gone to last, -1 for none. */
  find: { query: string; at: number; numOpened: number } | null;
  /** Said by screen readers when it changes. */
  said: string;
  /** The wire in hand: dragged, or started by a tap. */
  wire: WireEnd | null;
  /** Key of the thing whose title is being changed, where that began with a key or as it was made. */
  renaming: string;
  /** A node that was just made: letters are meant for its text, for as long as this selection lasts. */
  fresh: { node: string; selection: ReadonlySet<string> } | null;
  /** The groups that what is dragged would join and leave where it is. */
  joining: { joins: string | null; leaves: string | null };
  /** Why the last wire was refused, where it was dropped. */
  refusal: ({ text: string } & Place) | null;
  /** Wide enough that nodes draw their fields. */
  isNear: boolean;
  /** So far away that nothing but nodes can be made out. */
  isTiny: boolean;
  /** So far away that nodes are drawn as their titles: for which zoom; else 0. */
  titleZoom: number;
  /** While the view is moved or zoomed. */
  isMoving: boolean;
  /** Key of the node under the pointer, once it rests there. */
  hovered: string;
  flow: ReactFlowInstance<CanvasNode, WireEdge> | null;
  /** The element that the canvas fills. */
  box: HTMLElement | null;
}

/** In a lower window a map would lie over what one works at. */
const MAP_HEIGHT = 800;

export const canvasUi = createStore<CanvasUi>(() => ({
  popup: null,
  tool: "pan",
  isOutlineOpen: false,
  isMapOpen: (globalThis.innerHeight ?? MAP_HEIGHT) >= MAP_HEIGHT,
  find: null,
  said: "",
  wire: null,
  renaming: "",
  fresh: null,
  joining: { joins: null, leaves: null },
  refusal: null,
  isNear: true,
  isTiny: false,
  titleZoom: 0,
  isMoving: false,
  hovered: "",
  flow: null,
  box: null,
}));

export function useCanvasUi<T>(selector: (state: CanvasUi) => T): T {
  return useStore(canvasUi, selector);
}

export function openPopup(popup: Popup): void {
  canvasUi.setState({ popup });
}

/** Closes the popup; the focus goes back to the canvas unless `to` names an item. */
export function closePopup(): void {
  canvasUi.setState({ popup: null });
}

/** Open the search over the canvas, or go back to its field. */
export function openFind(): void {
  canvasUi.setState(({ find }) => ({
    find: { query: find?.query ?? "", at: find?.at ?? -1, numOpened: (find?.numOpened ?? 0) + 1 },
  }));
}

export function say(text: string): void {
  canvasUi.setState({ said: text });
}

let pointer: Place | null = null;

/** Where the mouse is over the canvas; null where it is elsewhere. */
export function notePointer(place: Place | null): void {
  pointer = place;
}

/** Where the mouse is, on the canvas; else the middle of what is seen. */
export function underPointer(): Point {
  return onCanvas(pointer ?? middle());
}

/** The middle of what is seen, as a place in the window. */
export function middle(): Place {
  const rect = canvasUi.getState().box?.getBoundingClientRect();
  return rect ? { x: rect.left + rect.width / 2, y: rect.top + rect.height / 2 } : { x: 0, y: 0 };
}

/** A place in the window as a place on the canvas. */
export function onCanvas(place: Place): Point {
  const point = canvasUi.getState().flow?.screenToFlowPosition(place, { snapToGrid: false });
  return point ? [Math.round(point.x), Math.round(point.y)] : [0, 0];
}
