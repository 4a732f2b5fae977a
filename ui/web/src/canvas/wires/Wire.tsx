import { BaseEdge, getBezierPath, ViewportPortal, type EdgeProps } from "@xyflow/react";
import { memo } from "react";
import type { WireEdge } from "../flow/flowEdges";
import { lookOf } from "../look";
import { useRoute } from "../routes/routesStore";
import { wirePath } from "./wirePath";

/** A wire in the colour of its type, round the nodes; thicker when selected, dashed when a muted node makes it do
nothing. Where nodes leave no way, and only there, it runs over them, pale. */
export const Wire = memo(function Wire(props: EdgeProps<WireEdge>) {
  const { id, sourceX, sourceY, targetX, targetY, selected, data } = props;
  const route = useRoute(id);
  const way = route && wirePath(route, [sourceX, sourceY], [targetX, targetY]);
  const path = way || getBezierPath({ ...props, curvature: 0.3 })[0];
  const { tone } = lookOf(data?.type ?? "");
  const classes = [
    "ll-wire",
    `ll-tone-${tone}`,
    selected ? "ll-wire-selected" : "",
    data?.isMuted ? "ll-wire-muted" : "",
    route === null ? "ll-wire-hidden" : "",
  ];
  return (
    <>
      <BaseEdge path={path} className={classes.filter(Boolean).join(" ")} interactionWidth={18} />
      {route === null && (
        <ViewportPortal>
          <svg className={`ll-wire-over ll-tone-${tone}`}>
            <path d={path} />
          </svg>
        </ViewportPortal>
      )}
    </>
  );
});
