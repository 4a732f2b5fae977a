import { memo, type ReactNode } from "react";
import { t } from "../../i18n";
import { useIsChanged } from "../../store/changedSinceRun";
import { useRunName } from "../../store/editor";
import { useNodeState } from "../../store/live";
import { NodePictures, NodeThumb } from "./NodePictures";
import { NodeStatus } from "./NodeStatus";
import { worded } from "../../worded";

interface NodeFrameProps {
  name: string;
  title: string;
  /** What the node is, told where a run tells nothing of it. */
  about: string;
  className: string;
  /** Both keep their identity while only the run's state changes, so React leaves them alone. */
  head: ReactNode;
  body: ReactNode;
  isCollapsed: boolean;
  hasPicture: boolean;
}

/** The box of a node and all that a run changes in it: the one subscription a node has to the run being watched.
Whatever a run tells has its place from the start: a node never grows by it. */
export const NodeFrame = memo(function NodeFrame(props: NodeFrameProps) {
  const { name, title, about, className, head, body, isCollapsed, hasPicture } = props;
  const ran = useRunName(name);
  const state = useNodeState(ran);
  const status = state?.state ?? "idle";
  const isStale = useIsChanged(name) && (status === "done" || status === "cached");
  const isShown = hasPicture && !isCollapsed;
  return (
    <div
      className={`ll-node ll-node-${isStale ? "stale" : status} ${isShown ? "ll-node-pictured" : ""} ${className}`}
      data-testid={`node-${name}`}
      data-status={status}
    >
      {head}
      <NodeStatus title={title} about={about} state={state} isStale={isStale} />
      {body}
      {isShown && <NodePictures name={name} ran={ran} title={title} state={state} />}
      {!isShown && state && <NodeThumb ran={ran} title={title} state={state} />}
      <p className="ll-far-title" aria-hidden="true" data-title={title} />
      {status === "failed" && (
        <p className="ll-node-failure" role="alert">
          {worded(state?.message ?? "") || t("canvas.failed_without_reason")}
        </p>
      )}
    </div>
  );
});
