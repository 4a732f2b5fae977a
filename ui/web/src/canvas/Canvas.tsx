import {
  Background,
  BackgroundVariant,
  MiniMap,
  Panel,
  ReactFlow,
  ReactFlowProvider,
  SelectionMode,
  type ReactFlowInstance,
} from "@xyflow/react";
import { useEffect, useRef, type CSSProperties } from "react";
import { lazily } from "../frame/lazily";
import { t } from "../i18n";
import { usePage } from "../store/page";
import { canvasUi, useCanvasUi } from "./canvasUi";
import { FindBar } from "./find/FindBar";
import type { WireEdge } from "./flow/flowEdges";
import { MANY, type CanvasNode } from "./flow/flowNodes";
import { HUGE } from "./flow/showAll";
import { useFit } from "./flow/useFit";
import { useFlow } from "./flow/useFlow";
import { useNearness } from "./flow/useNearness";
import { useCanvasKeys } from "./gestures/keyboard";
import { useCanvasEvents } from "./gestures/pointer";
import { useFileDrop } from "./gestures/useFileDrop";
import { useLongPress } from "./gestures/useLongPress";
import { GroupBox } from "./groups/GroupBox";
import { NoteBox } from "./groups/NoteBox";
import { NodeCard } from "./nodes/NodeCard";
import { Outline } from "./outline/Outline";
import { ContextMenu } from "./popups/ContextMenu";
import { Palette } from "./popups/Palette";
import { SocketMenu } from "./popups/SocketMenu";
import { useIsTold } from "./routes/routesStore";
import { useRoutes } from "./routes/useRoutes";
import { Tools } from "./Tools";
import { FitTones } from "./wires/FitTones";
import { LitWires } from "./wires/LitWires";
import { RefusalNote } from "./wires/RefusalNote";
import { RerouteDot } from "./wires/RerouteDot";
import { Wire } from "./wires/Wire";
import { WireInHand } from "./wires/WireInHand";

const EmptyCanvas = lazily(async () => (await import("./EmptyCanvas")).EmptyCanvas);
const NODE_TYPES = { card: NodeCard, box: GroupBox, note: NoteBox, reroute: RerouteDot };
const EDGE_TYPES = { wire: Wire };
const MULTI_SELECT = ["Control", "Meta", "Shift"];
/** While boxes are drawn: the middle button still moves the view; a finger cannot do both. */
const SELECTING_PAN = matchMedia("(pointer: coarse)").matches ? false : [1];

/** The node canvas: the whole of the workflow, to be seen and changed. */
export function Canvas() {
  return (
    <ReactFlowProvider>
      <Surface />
    </ReactFlowProvider>
  );
}

function Surface() {
  const box = useRef<HTMLDivElement>(null);
  const theme = usePage((page) => page.theme);
  const tool = useCanvasUi((ui) => ui.tool);
  const isOutlineOpen = useCanvasUi((ui) => ui.isOutlineOpen);
  const isMapOpen = useCanvasUi((ui) => ui.isMapOpen);
  const isFindOpen = useCanvasUi((ui) => ui.find !== null);
  const isNear = useCanvasUi((ui) => ui.isNear);
  const isTiny = useCanvasUi((ui) => ui.isTiny);
  const titleZoom = useCanvasUi((ui) => ui.titleZoom);
  const { nodes, edges, isHeld, onNodesChange, onEdgesChange, onNodeDragStart } = useFlow();
  const events = useCanvasEvents();
  const keys = useCanvasKeys();
  const press = useLongPress();
  const drop = useFileDrop();
  useEffect(() => {
    canvasUi.setState({ box: box.current });
  }, []);
  useFit(box);
  useRoutes(nodes, edges, isHeld);
  const isTold = useIsTold();
  const isHuge = nodes.length > HUGE;
  const isSelecting = tool === "select";
  const classes = [
    "ll-canvas",
    isNear ? "" : "ll-canvas-far",
    isTiny ? "ll-canvas-tiny" : "",
    titleZoom ? "ll-canvas-titles" : "",
    isSelecting ? "ll-canvas-selecting" : "",
    drop.isOver ? "ll-canvas-drop" : "",
    isTold ? "" : "ll-wires-waiting",
  ];

  return (
    <div
      ref={box}
      className={classes.filter(Boolean).join(" ")}
      style={titleZoom ? ({ "--ll-zoom": titleZoom } as CSSProperties) : undefined}
      data-testid="canvas"
      role="region"
      aria-label={t("canvas.canvas")}
      aria-describedby="ll-canvas-keys"
      tabIndex={-1}
      {...keys}
      {...press}
      {...drop.handlers}
    >
      <p id="ll-canvas-keys" className="ll-hidden">
        {t("canvas.node_keys")}
      </p>
      <ReactFlow<CanvasNode, WireEdge>
        nodes={nodes}
        edges={edges}
        nodeTypes={NODE_TYPES}
        edgeTypes={EDGE_TYPES}
        connectionLineComponent={WireInHand}
        onNodesChange={onNodesChange}
        onEdgesChange={onEdgesChange}
        onNodeDragStart={onNodeDragStart}
        onInit={keepFlow}
        {...events}
        colorMode={theme}
        deleteKeyCode={null}
        multiSelectionKeyCode={MULTI_SELECT}
        selectionMode={SelectionMode.Partial}
        selectionOnDrag={isSelecting}
        panOnDrag={isSelecting ? SELECTING_PAN : [0, 1]}
        panOnScroll={false}
        zoomOnDoubleClick={false}
        disableKeyboardA11y
        edgesFocusable={false}
        elevateNodesOnSelect={false}
        onlyRenderVisibleElements={nodes.length > MANY && (isNear || isHuge)}
        connectionRadius={26}
        reconnectRadius={16}
        connectionDragThreshold={4}
        nodeDragThreshold={3}
        minZoom={isHuge ? 0.2 : 0.05}
        maxZoom={2.5}
        attributionPosition="bottom-left"
      >
        {!isTiny && <Background variant={BackgroundVariant.Dots} gap={22} size={1.4} />}
        {isMapOpen && nodes.length > 0 && !isHuge && (
          <MiniMap<CanvasNode>
            className="ll-map"
            pannable
            zoomable
            ariaLabel={t("canvas.map")}
            nodeClassName={mapClass}
          />
        )}
        <Panel position="top-left" className="ll-canvas-tools">
          <Tools />
        </Panel>
        <Nearness />
      </ReactFlow>
      {nodes.length === 0 && <EmptyCanvas />}
      {isOutlineOpen && <Outline />}
      {isFindOpen && <FindBar />}
      <FitTones />
      <LitWires />
      <RefusalNote />
      <Popups />
      <Said />
    </div>
  );
}

function keepFlow(flow: ReactFlowInstance<CanvasNode, WireEdge>): void {
  canvasUi.setState({ flow });
}

function mapClass(node: CanvasNode): string {
  return node.type === "card" ? "ll-map-node" : `ll-map-${node.type}`;
}

function Popups() {
  const popup = useCanvasUi((ui) => ui.popup);
  if (popup?.kind === "palette") return <Palette key={`${popup.x},${popup.y}`} popup={popup} />;
  if (popup?.kind === "sockets") return <SocketMenu key={popup.node} popup={popup} />;
  return popup ? <ContextMenu key={popup.kind} popup={popup} /> : null;
}

function Said() {
  const said = useCanvasUi((ui) => ui.said);
  return (
    <div className="ll-hidden" role="status" aria-live="polite">
      {said}
    </div>
  );
}

function Nearness() {
  useNearness();
  return null;
}
