import { t } from "../../i18n";
import { formatLeft, formatSeconds } from "../../parts/format";
import { Icon, type IconName } from "../../parts/icons";
import { useLeft } from "../../store/left";
import { useLive } from "../../store/live";
import { isStarting } from "../../store/liveState";
import type { NodeState } from "../../types";
import { worded } from "../../worded";

const ICONS: Partial<Record<NodeState["state"], IconName>> = {
  waiting: "clock",
  done: "check",
  cached: "history",
  failed: "error",
  cancelled: "stop",
  skipped: "mute",
};

interface NodeStatusProps {
  title: string;
  about: string;
  state: NodeState | null;
  isStale: boolean;
}

/** What the run does with a node, in one line: the state with its reason, or how far it is. */
export function NodeStatus({ title, about, state, isStale }: NodeStatusProps) {
  if (state) return <Told title={title} state={state} isStale={isStale} />;
  return (
    <div className="ll-node-status" title={about}>
      <p className="ll-node-about">{about}</p>
    </div>
  );
}

function Told({ title, state, isStale }: { title: string; state: NodeState; isStale: boolean }) {
  const isRunning = state.state === "running";
  const icon = isStale ? "history" : ICONS[state.state];
  const left = useLeft(state);
  const isFirst = useLive(({ watched, runs }) => state.state === "waiting" && isStarting(runs[watched ?? ""]));
  const words = isRunning
    ? running(state, left)
    : isFirst
      ? t("canvas.starting")
      : isStale
        ? t("canvas.changed_since")
        : ended(state);
  return (
    <div className="ll-node-status" title={words}>
      {isRunning && <Bar title={title} state={state} words={words} />}
      <p className="ll-node-words">
        {icon && <Icon name={icon} size={13} />}
        <span>{words}</span>
      </p>
    </div>
  );
}

function Bar({ title, state, words }: { title: string; state: NodeState; words: string }) {
  const isCounted = state.total > 0;
  const share = isCounted ? Math.min(1, state.done / state.total) : 0;
  return (
    <div
      className={`ll-bar ${isCounted ? "" : "ll-bar-open"}`}
      role="progressbar"
      aria-label={t("canvas.progress_of", { node: title })}
      aria-valuemin={0}
      aria-valuemax={isCounted ? state.total : undefined}
      aria-valuenow={isCounted ? state.done : undefined}
      aria-valuetext={words}
    >
      <i style={{ transform: `scaleX(${share})` }} />
    </div>
  );
}

function running(state: NodeState, left: number | null): string {
  const parts = [
    worded(state.phase) || t("canvas.running"),
    state.total > 0 ? t("canvas.steps_done", { done: state.done, total: state.total }) : "",
    left === null ? "" : t("canvas.time_left", { time: formatLeft(left) }),
  ];
  return parts.filter(Boolean).join(" · ");
}

function ended({ state, seconds, message, cached }: NodeState): string {
  if (state === "done") return t("canvas.done_in", { time: formatSeconds(seconds) });
  if (state === "cached") return worded(message) || t(cached === "disk" ? "canvas.cached_disk" : "canvas.cached");
  if (state === "skipped") return worded(message) || t("canvas.skipped");
  if (state === "failed") return message ? `${t("canvas.failed")}: ${worded(message)}` : t("canvas.failed");
  return t(state === "cancelled" ? "canvas.cancelled" : "canvas.waiting");
}
