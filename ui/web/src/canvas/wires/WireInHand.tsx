import { getBezierPath, type ConnectionLineComponentProps } from "@xyflow/react";
import { endName } from "../flow/flowEdges";
import type { CanvasNode } from "../flow/flowNodes";
import { reasonBetween } from "../gestures/pointer";
import { lookOf } from "../look";
import { wireEndOf } from "./wireEnd";

/** The wire that is being dragged; over a socket that it may not go to, it says why. */
export function WireInHand(props: ConnectionLineComponentProps<CanvasNode>) {
  const { fromX, fromY, toX, toY, fromPosition, toPosition, fromNode, fromHandle, toNode, toHandle } = props;
  const [path] = getBezierPath({
    sourceX: fromX,
    sourceY: fromY,
    sourcePosition: fromPosition,
    targetX: toX,
    targetY: toY,
    targetPosition: toPosition,
    curvature: 0.3,
  });
  const start = wireEndOf(fromNode.id, fromHandle.id ?? "", fromHandle.type);
  const isAtStart = toNode?.id === fromNode.id && toHandle?.id === fromHandle.id && toHandle?.type === fromHandle.type;
  const isAtSocket = toHandle !== null && toNode !== null && !isAtStart;
  const reason =
    isAtSocket && start
      ? reasonBetween([start.name, endName(toNode.id, toHandle.id ?? "")], fromHandle.type, toHandle.type)
      : "";
  return (
    <g className={`ll-tone-${lookOf(start?.type ?? "").tone}`}>
      <path d={path} className={`ll-wire ll-wire-in-hand ${reason ? "ll-wire-refused" : ""}`} />
      {reason && (
        <foreignObject x={toX + 12} y={toY + 12} width={1} height={1} className="ll-refusal-place">
          <div className="ll-refusal">{reason}</div>
        </foreignObject>
      )}
    </g>
  );
}
