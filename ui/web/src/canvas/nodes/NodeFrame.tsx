import { memo, type ReactNode } from "react";
import { t } from "../../i18n";
import { useIsChanged } from "../../store/changedSinceRun";
import { useNodeState } from "../../store/live";
import { NodePictures } from "./NodePictures";
import { NodeProgress } from "./NodeProgress";
import { worded } from "../../worded";

interface NodeFrameProps {
  name: string;
  title: string;
  className: string;
  /** Both keep their identity while only the run's state changes, so React leaves them alone. */
  head: ReactNode;
  body: ReactNode;
  isCollapsed: boolean;
}

/** The box of a node and all that a run changes in it: the one subscription a node has to the run being watched. */
export const NodeFrame = memo(function NodeFrame({ name, title, className, head, body, isCollapsed }: NodeFrameProps) {
  const state = useNodeState(name);
  const status = state?.state ?? "idle";
  const isStale = useIsChanged(name) && (status === "done" || status === "cached");
  return (
    <div
      className={`ll-node ll-node-${isStale ? "stale" : status} ${className}`}
      data-testid={`node-${name}`}
      data-status={status}
    >
      {head}
      {state && <NodeProgress title={title} state={state} isStale={isStale} />}
      {body}
      {state && !isCollapsed && <NodePictures name={name} title={title} state={state} />}
      {state && status === "failed" && (
        <p className="ll-node-failure" role="alert">
          {worded(state.message) || t("canvas.failed_without_reason")}
        </p>
      )}
    </div>
  );
});
