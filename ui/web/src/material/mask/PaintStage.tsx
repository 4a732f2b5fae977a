import { useEffect, useMemo, useReducer, useRef, useState, type KeyboardEvent, type PointerEvent } from "react";
import { useSize } from "../../gallery/stage/useSize";
import { panned, place, zoomed, type Size, type View } from "../../gallery/stage/zoom";
import { t } from "../../i18n";
import { coloursOf, type Picture } from "../pixels";
import type { Colours, Spot } from "./coverage";
import { drawPane, MaskPictures, type Pane } from "./drawing";
import type { Painter } from "./painter";
import { LONG, radiusOf, type Settings } from "./tools";

interface PaintStageProps {
  painter: Painter;
  picture: Picture | null;
  settings: Settings;
  view: View;
  onView: (view: View) => void;
  /** Where the cursor is, and whether the pen is down, for who reads it. */
  onCursor: (spot: Spot, isDown: boolean) => void;
}

const WHEEL = 0.0015;
const ERASER = 32;
const MIDDLE = 1;
const ARROWS: Readonly<Record<string, readonly [number, number]>> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

/** What the hands are doing; it changes more often than React should draw. */
interface Hands {
  pointers: Map<number, Spot>;
  /** What the first pointer does. */
  doing: "draw" | "lasso" | "pan" | null;
  spot: Spot;
  isOver: boolean;
  isKeyboard: boolean;
  isPenDown: boolean;
  outline: Spot[];
  /** Of the brush as it touches; null while it does not. */
  radius: number | null;
  /** Pixels left of the pane that the pointer came down in, or is over. */
  side: number;
}

/** The picture with its mask: painted by mouse, pen, finger, or a cursor that keys move. */
export function PaintStage({ painter, picture, settings, view, onView, onCursor }: PaintStageProps) {
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const stage = useSize(box);
  const { mask } = painter;
  const pictures = useMemo(() => new MaskPictures(mask), [mask]);
  const [asked, redraw] = useReducer((count: number) => count + 1, 0);
  const [hands] = useState<Hands>(() => ({
    pointers: new Map(),
    doing: null,
    spot: { x: mask.width / 2, y: mask.height / 2 },
    isOver: false,
    isKeyboard: false,
    isPenDown: false,
    outline: [],
    radius: null,
    side: 0,
  }));
  const colours = useRef<Colours | null>(null);
  const panes = panesOf(stage, settings);
  const paneSize = panes[0]!.size;
  const placement = place(view, mask, paneSize);
  const now = useRef({ view, paneSize, onView });
  now.current = { view, paneSize, onView };

  useEffect(() => box.current?.focus(), []); // once the dialog around it is open
  useEffect(() => painter.subscribe(redraw), [painter]);
  useEffect(() => {
    const frame = requestAnimationFrame(() => {
      const dirty = painter.takeDirty();
      if (dirty) pictures.update(dirty);
      const target = canvas.current;
      const context = target?.getContext("2d");
      if (!target || !context || !stage.width) return;
      const dots = window.devicePixelRatio || 1;
      const [wide, tall] = [Math.round(stage.width * dots), Math.round(stage.height * dots)];
      if (target.width !== wide || target.height !== tall) [target.width, target.height] = [wide, tall];
      context.setTransform(dots, 0, 0, dots, 0, 0);
      context.clearRect(0, 0, stage.width, stage.height);
      const radius = settings.tool === "brush" ? (hands.radius ?? radiusOf(settings.size)) : 0.5;
      const cursor = hands.isOver || hands.isKeyboard ? { ...hands.spot, radius, isKeyboard: hands.isKeyboard } : null;
      const scene = { picture, pictures, placement, cursor, outline: hands.outline };
      for (const pane of panes) drawPane(context, pane, scene);
    });
    return () => cancelAnimationFrame(frame);
  }, [asked, view, stage, settings, picture, painter]);

  useEffect(() => {
    const element = box.current;
    if (!element) return;
    // React listens to the wheel passively, and then the page would scroll as well.
    const onWheel = (event: WheelEvent) => {
      event.preventDefault();
      const { view, paneSize, onView } = now.current;
      const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
      const at = inPane(pointIn(element, event), paneSize);
      onView(zoomed(view, Math.exp(-event.deltaY * lines * WHEEL), { at, picture: mask, stage: paneSize }));
    };
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => element.removeEventListener("wheel", onWheel);
  }, [mask]);

  useEffect(() => {
    // Another tool leaves nothing half done.
    hands.outline = [];
    lift();
  }, [settings.tool]);

  const told = () => {
    redraw();
    onCursor(hands.spot, hands.isPenDown);
  };
  const touch = (pressure = 1) => {
    hands.radius = radiusOf(settings.size, pressure);
    return { ...hands.spot, radius: hands.radius };
  };
  const lift = () => {
    hands.isPenDown = false;
    hands.radius = null;
    painter.up();
    told();
  };
  const close = (isErasing: boolean) => {
    painter.outline(hands.outline, isErasing);
    hands.outline = [];
    told();
  };
  const fill = (isErasing: boolean) => {
    if (settings.byColour && picture) colours.current ??= coloursOf(picture, mask.width, mask.height).data;
    const limits =
      settings.byColour && colours.current ? { picture: colours.current, tolerance: settings.tolerance } : {};
    painter.fill(hands.spot, { isErasing, ...limits });
  };
  /** A point of the stage as one of the picture. */
  const spotAt = (point: Spot): Spot => {
    if (hands.pointers.size === 0) hands.side = point.x - inPane(point, paneSize).x;
    const { x, y } = { x: point.x - hands.side, y: point.y };
    return { x: (x - placement.left) / placement.scale, y: (y - placement.top) / placement.scale };
  };

  const onPointerDown = (event: PointerEvent<HTMLDivElement>) => {
    if (event.button > MIDDLE && !(event.buttons & ERASER)) return;
    event.currentTarget.setPointerCapture(event.pointerId);
    const point = pointIn(event.currentTarget, event);
    if (hands.pointers.size === 0) hands.spot = spotAt(point);
    hands.pointers.set(event.pointerId, point);
    hands.isKeyboard = false;
    if (hands.pointers.size > 1) {
      painter.cancel(); // a second finger: both move the picture
      hands.doing = "pan";
      hands.outline = [];
      return told();
    }
    const isErasing = settings.isErasing || event.altKey || (event.buttons & ERASER) !== 0;
    hands.doing =
      settings.tool === "hand" || event.button === MIDDLE ? "pan" : settings.tool === "lasso" ? "lasso" : "draw";
    if (hands.doing === "lasso") hands.outline = [hands.spot];
    else if (hands.doing === "draw" && settings.tool === "fill") fill(isErasing);
    else if (hands.doing === "draw") painter.down(touch(pressureOf(event)), isErasing);
    told();
  };
  const onPointerMove = (event: PointerEvent<HTMLDivElement>) => {
    const to = pointIn(event.currentTarget, event);
    const from = hands.pointers.get(event.pointerId);
    if (from && hands.doing === "pan") {
      const other = [...hands.pointers].find(([id]) => id !== event.pointerId)?.[1];
      hands.pointers.set(event.pointerId, to);
      if (!other) return onView(panned(view, to.x - from.x, to.y - from.y, mask, paneSize));
      const factor =
        Math.hypot(to.x - other.x, to.y - other.y) / Math.max(Math.hypot(from.x - other.x, from.y - other.y), 1);
      const at = inPane({ x: (to.x + other.x) / 2, y: (to.y + other.y) / 2 }, paneSize);
      return onView(zoomed(view, factor, { at, picture: mask, stage: paneSize }));
    }
    hands.isOver = true;
    hands.isKeyboard = false;
    const steps = event.nativeEvent.getCoalescedEvents?.() ?? [];
    for (const step of steps.length ? steps : [event.nativeEvent]) {
      hands.spot = spotAt(pointIn(event.currentTarget, step));
      if (from && hands.doing === "lasso") hands.outline.push(hands.spot);
      else if (from && hands.doing === "draw") painter.move(touch(pressureOf(step)));
    }
    told();
  };
  const onPointerUp = (event: PointerEvent<HTMLDivElement>) => {
    if (!hands.pointers.delete(event.pointerId)) return;
    if (hands.doing === "lasso") close(settings.isErasing || event.altKey);
    if (hands.doing === "draw") lift();
    if (hands.pointers.size === 0) hands.doing = null;
    if (event.pointerType === "touch") hands.isOver = false;
    told();
  };

  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey) return;
    const arrow = ARROWS[event.key];
    if (arrow) moveBy(arrow[0], arrow[1], event.shiftKey ? settings.step * LONG : settings.step);
    else if (event.key === " " && !event.repeat) press();
    else if (event.key === "Enter") enter();
    else if (event.key === "Escape" && (hands.outline.length || hands.isPenDown)) {
      hands.outline = [];
      lift();
    } else if (event.key !== " ") return;
    event.preventDefault();
    event.stopPropagation();
  };
  const onKeyUp = (event: KeyboardEvent) => {
    if (event.key === " " && settings.tool === "brush") lift();
  };
  const moveBy = (dx: number, dy: number, step: number) => {
    hands.isKeyboard = true;
    const [x, y] = [hands.spot.x + dx * step, hands.spot.y + dy * step];
    hands.spot = { x: Math.min(Math.max(x, 0.5), mask.width - 0.5), y: Math.min(Math.max(y, 0.5), mask.height - 0.5) };
    if (hands.isPenDown) painter.move(touch());
    follow();
    told();
  };
  /** Space: the pen touches as long as it is held; a corner of the outline; a flood. */
  const press = () => {
    hands.isKeyboard = true;
    if (settings.tool === "lasso") hands.outline.push(hands.spot);
    else if (settings.tool === "fill") fill(settings.isErasing);
    else if (settings.tool === "brush") setPen(true);
    told();
  };
  /** Enter: the pen goes down and stays, or up; the outline is closed; a flood. */
  const enter = () => {
    if (settings.tool === "brush" && hands.isPenDown) return lift();
    if (settings.tool === "lasso") return close(settings.isErasing);
    press();
  };
  const setPen = (isDown: boolean) => {
    hands.isPenDown = isDown;
    painter.down(touch(), settings.isErasing);
  };
  /** Keeps the cursor in sight. */
  const follow = () => {
    const [x, y] = [placement.left + hands.spot.x * placement.scale, placement.top + hands.spot.y * placement.scale];
    const beyond = (at: number, room: number) => (at < 0 ? -at + room / 4 : at > room ? room - at - room / 4 : 0);
    const [dx, dy] = [beyond(x, paneSize.width), beyond(y, paneSize.height)];
    if (dx || dy) onView(panned(view, dx, dy, mask, paneSize));
  };

  return (
    <div
      ref={box}
      className={`ll-paint-stage ll-paint-${settings.tool}`}
      role="application"
      tabIndex={0}
      aria-label={t("material.stage", { width: mask.width, height: mask.height })}
      aria-describedby="ll-paint-keys"
      onPointerDown={onPointerDown}
      onPointerMove={onPointerMove}
      onPointerUp={onPointerUp}
      onPointerCancel={onPointerUp}
      onPointerLeave={() => {
        hands.isOver = false;
        redraw();
      }}
      onKeyDown={onKeyDown}
      onKeyUp={onKeyUp}
      onBlur={() => hands.isPenDown && lift()}
      onContextMenu={(event) => event.preventDefault()}
    >
      <canvas ref={canvas} />
    </div>
  );
}

function panesOf({ width, height }: Size, { sight }: Settings): Pane[] {
  if (sight === "alone") return [{ left: 0, size: { width, height }, shows: "mask" }];
  if (sight === "over") return [{ left: 0, size: { width, height }, shows: "over" }];
  const size = { width: Math.floor(width / 2), height };
  return [
    { left: 0, size, shows: "picture" },
    { left: width - size.width, size, shows: "over" },
  ];
}

/** A point of the stage from the corner of the pane that it lies in. */
function inPane({ x, y }: Spot, { width }: Size): Spot {
  return { x: x >= width && width > 0 ? x - width : x, y };
}

/** A pen says how hard it is pressed; a mouse and most fingers do not. */
function pressureOf({ pointerType, pressure }: { pointerType: string; pressure: number }): number {
  return pointerType === "pen" && pressure > 0 ? pressure : 1;
}

function pointIn(element: Element, event: { clientX: number; clientY: number }): Spot {
  const rect = element.getBoundingClientRect();
  return { x: event.clientX - rect.left, y: event.clientY - rect.top };
}
