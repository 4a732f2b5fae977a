import type { DragEvent } from "react";
import { urls } from "../../host";
import { t } from "../../i18n";
import { formatLeft, formatSeconds, moment } from "../../parts/format";
import { IconButton } from "../../parts/IconButton";
import { Icon, type IconName } from "../../parts/icons";
import { Meter } from "../../parts/Meter";
import { MenuButton, type MenuItem } from "../../parts/overlays/Menu";
import { useLeft } from "../../store/left";
import { useLive, watchRun } from "../../store/live";
import { go } from "../../store/page";
import type { QueueEntry, Run, RunState } from "../../types";
import { resultsOf } from "../library/workflowThumb";
import { openRun, watch } from "./openRun";
import { outcomeText } from "./outcome";
import { cancel, removeRuns } from "./runActions";
import { variedText } from "./variedText";
import { worded } from "../../worded";

const ICONS: Record<RunState, IconName> = {
  waiting: "clock",
  running: "play",
  done: "check",
  failed: "error",
  cancelled: "stop",
};

/** How a waiting run is moved. */
export interface Order {
  isFirst: boolean;
  isLast: boolean;
  isDragged: boolean;
  onUp: () => void;
  onDown: () => void;
  onDragStart: () => void;
  onDragEnd: () => void;
  onDrop: (event: DragEvent) => void;
}

/** One run of the user's own. */
export function RunEntry({ run, order }: { run: Run; order?: Order }) {
  const isWatched = useLive((state) => state.watched === run.id);
  const isActive = run.state === "waiting" || run.state === "running";
  const picture = resultsOf(run).at(-1);
  const failure = worded(run.error || run.note);
  const outcome = isActive ? "" : outcomeText(run.nodes);
  const varied = variedText(run.varied);
  const name = varied ? `${run.name}, ${varied}` : run.name;
  const left = useLeft(run);
  return (
    <li
      className={`ll-run ll-run-${run.state} ${order?.isDragged ? "ll-run-dragged" : ""}`}
      data-testid={`run-${run.id}`}
      data-state={run.state}
      draggable={order !== undefined}
      onDragStart={order?.onDragStart}
      onDragEnd={order?.onDragEnd}
      onDragOver={order && ((event) => event.preventDefault())}
      onDrop={order?.onDrop}
    >
      {picture ? (
        <img className="ll-run-picture" src={urls.thumb(picture)} alt="" loading="lazy" />
      ) : (
        <span className="ll-run-icon">
          <Icon name={ICONS[run.state]} size={18} />
        </span>
      )}
      <div className="ll-run-text">
        <span className="ll-run-name">{run.name}</span>
        <span className="ll-run-facts">{factsOf(run, left)}</span>
        {outcome && <span className="ll-run-facts">{outcome}</span>}
        {varied && <span className="ll-run-facts">{varied}</span>}
        {failure && <span className={run.error ? "ll-run-error" : "ll-run-facts"}>{failure}</span>}
      </div>
      <div className="ll-run-buttons">
        {order && (
          <>
            <IconButton
              icon="arrow-up"
              label={t("panels.move_up", { name })}
              disabled={order.isFirst}
              onClick={order.onUp}
            />
            <IconButton
              icon="arrow-down"
              label={t("panels.move_down", { name })}
              disabled={order.isLast}
              onClick={order.onDown}
            />
          </>
        )}
        <IconButton
          icon="eye"
          label={t("panels.watch", { name })}
          isPressed={isWatched}
          onClick={() => (isWatched ? watchRun(null) : void watch(run))}
        />
        {isActive && (
          <IconButton icon="stop" label={t("panels.cancel_run", { name })} onClick={() => void cancel(run.id)} />
        )}
        <MenuButton label={t("panels.run_menu", { name })} items={menuOf(run)} />
      </div>
      {run.state === "running" && <Meter label={t("panels.progress", { name })} value={run.done} max={run.total} />}
    </li>
  );
}

/** A run of somebody else: that it is there, and nothing about it. */
export function OtherEntry({ entry }: { entry: QueueEntry }) {
  return (
    <li className={`ll-run ll-run-${entry.state}`} data-state={entry.state}>
      <span className="ll-run-icon">
        <Icon name={ICONS[entry.state]} size={18} />
      </span>
      <div className="ll-run-text">
        <span className="ll-run-name">{entry.is_mine ? entry.name : t("panels.other_run")}</span>
        <span className="ll-run-facts">{t(`panels.state_${entry.state}`)}</span>
      </div>
    </li>
  );
}

function factsOf(run: Run, left: number | null): string {
  const state = t(`panels.state_${run.state}`);
  if (run.state === "running") {
    const steps = run.total > 0 ? ` ${run.done}/${run.total}` : "";
    return left === null ? `${state}${steps}` : `${state}${steps}, ${leftOf(run, left)}`;
  }
  if (run.state === "waiting" || !run.ended) return state;
  const when = moment(run.ended);
  return run.started
    ? t("panels.ended", { state, time: formatSeconds(run.ended - run.started), when })
    : `${state}, ${when}`;
}

function leftOf(run: Run, seconds: number): string {
  return t(run.is_left_least ? "panels.left_at_least" : "panels.left", { time: formatLeft(seconds) });
}

function menuOf(run: Run): MenuItem[] {
  const isActive = run.state === "waiting" || run.state === "running";
  return [
    { label: t("panels.open_run"), icon: "build", onSelect: () => void openRun(run) },
    {
      label: t("panels.show_results"),
      icon: "image",
      isDisabled: resultsOf(run).length === 0,
      onSelect: () => go("gallery", { run: run.id }),
    },
    "-",
    {
      label: t("panels.remove_run"),
      icon: "trash",
      isDanger: true,
      isDisabled: isActive,
      onSelect: () => void removeRuns([run]),
    },
  ];
}
