import { BaseEdge, getBezierPath, type EdgeProps } from "@xyflow/react";
import { memo } from "react";
import type { WireEdge } from "../flow/flowEdges";
import { lookOf } from "../look";

/** A wire in the colour of its type, thicker when selected, dashed when a muted node makes it do nothing. */
export const Wire = memo(function Wire(props: EdgeProps<WireEdge>) {
  const [path] = getBezierPath({ ...props, curvature: 0.3 });
  const { tone } = lookOf(props.data?.type ?? "");
  const classes = [
    "ll-wire",
    `ll-tone-${tone}`,
    props.selected ? "ll-wire-selected" : "",
    props.data?.isMuted ? "ll-wire-muted" : "",
  ];
  return <BaseEdge path={path} className={classes.filter(Boolean).join(" ")} interactionWidth={18} />;
});
