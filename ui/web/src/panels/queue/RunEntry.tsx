import type { DragEvent, KeyboardEvent } from "react";
import { urls } from "../../host";
import { t } from "../../i18n";
import { formatLeft, formatSeconds, moment } from "../../parts/format";
import { IconButton } from "../../parts/IconButton";
import type { EntryFrame } from "../../parts/long/LongList";
import { Icon, type IconName } from "../../parts/icons";
import { Meter } from "../../parts/Meter";
import { MenuButton, type MenuItem } from "../../parts/overlays/Menu";
import { leftAt, partOf, percentOf, useServerNow } from "../../store/left";
import { useLive, watchRun } from "../../store/live";
import { isStarting } from "../../store/liveState";
import { go } from "../../store/page";
import type { QueueEntry, Run, RunState } from "../../types";
import { worded } from "../../worded";
import { openRun, watch } from "../runs/openRun";
import { cancel, removeRuns } from "../runs/runActions";
import { variedText } from "../runs/variedText";
import { outcomeText } from "./outcome";
import { priorityItems } from "./priorities";
import { waitText, type Wait } from "./waits";

export const SCROLLER = ".ll-tab-panel";
/** Of an entry, px: what it is taken for before it is drawn. */
export const USUAL_HEIGHT = 62;
/** What the arrow keys go to in an entry, and what while entries are chosen. */
export const LANDING = "[data-landing]";
export const CHECK = "input";

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

/** How runs are chosen for something to be done with them. */
interface Choice {
  isChosen: boolean;
  onChoose: (id: string, isChosen: boolean, isRange: boolean) => void;
}

interface RunEntryProps {
  run: Run;
  frame: EntryFrame;
  order?: Order | undefined;
  wait?: Wait | undefined;
  choice?: Choice | undefined;
}

/** One run of the user's own. */
export function RunEntry({ run, frame, order, wait, choice }: RunEntryProps) {
  const isWatched = useLive((state) => state.watched === run.id);
  const isActive = run.state === "waiting" || run.state === "running";
  const failure = worded(run.error || run.note);
  const outcome = isActive ? "" : outcomeText(run.nodes);
  const varied = variedText(run.varied);
  const name = varied ? `${run.name}, ${varied}` : run.name;
  const now = useServerNow(run.state === "running");
  const left = leftAt(run, now);
  const part = partOf(run, now);
  const onKeyDown = (event: KeyboardEvent) => {
    const turn = { ArrowUp: order?.onUp, ArrowDown: order?.onDown }[event.key];
    if (!event.altKey || !order || !turn) return;
    event.preventDefault();
    if (event.key === "ArrowUp" ? !order.isFirst : !order.isLast) turn();
  };
  return (
    <li
      {...frame}
      className={`ll-run ll-run-${run.state} ${order?.isDragged ? "ll-run-dragged" : ""}`}
      data-testid={`run-${run.id}`}
      data-state={run.state}
      draggable={order !== undefined}
      onDragStart={order?.onDragStart}
      onDragEnd={order?.onDragEnd}
      onDragOver={order && ((event) => event.preventDefault())}
      onDrop={order?.onDrop}
      onKeyDown={onKeyDown}
    >
      {choice ? (
        <label className="ll-run-check">
          <input
            type="checkbox"
            checked={choice.isChosen}
            aria-label={t("gallery.choose", { name })}
            onChange={({ target, nativeEvent }) =>
              choice.onChoose(run.id, target.checked, (nativeEvent as MouseEvent).shiftKey)
            }
          />
        </label>
      ) : run.newest_result ? (
        <img className="ll-run-picture" src={urls.thumb(run.newest_result)} alt="" loading="lazy" />
      ) : (
        <span className="ll-run-icon">
          <Icon name={ICONS[run.state]} size={18} />
        </span>
      )}
      <div className="ll-run-text">
        <span className="ll-run-name" title={name}>
          {run.name}
          {varied && <span className="ll-run-varied"> · {varied}</span>}
        </span>
        <span className="ll-run-facts" title={outcome || undefined}>
          {factsOf(run, left, wait, percentOf(run, now))}
          {outcome && <span className="ll-hidden">, {outcome}</span>}
        </span>
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
          data-landing=""
          onClick={() => (isWatched ? watchRun(null) : void watch(run))}
        />
        {isActive && (
          <IconButton icon="stop" label={t("panels.cancel_run", { name })} onClick={() => void cancel(run.id)} />
        )}
        <MenuButton label={t("panels.run_menu", { name })} items={menuOf(run)} />
      </div>
      {run.state === "running" && <Meter label={t("panels.progress", { name })} value={part ?? 0} max={part ? 1 : 0} />}
    </li>
  );
}

/** A run of somebody else: that it is there, and nothing about it. */
export function OtherEntry({ entry, frame }: { entry: QueueEntry; frame: EntryFrame }) {
  return (
    <li {...frame} className={`ll-run ll-run-${entry.state}`} data-state={entry.state}>
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

function factsOf(run: Run, left: number | null, wait: Wait | undefined, percent: string): string {
  const state = t(`panels.state_${run.state}`);
  const words = wait ? waitText(wait) : state;
  if (run.state === "running") {
    const words = isStarting(run) ? `${state}, ${t("panels.starting")}` : percent ? `${state}, ${percent}` : state;
    return left === null ? words : `${words}, ${leftOf(run, left)}`;
  }
  if (run.state === "waiting" && run.priority !== "normal") return t(`panels.waits_${run.priority}`, { wait: words });
  if (run.state === "waiting" || !run.ended) return words;
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
  const when: MenuItem[] = run.state === "waiting" ? [...priorityItems([run.id], run.priority), "-"] : [];
  return [
    ...when,
    { label: t("panels.open_run"), icon: "build", onSelect: () => void openRun(run) },
    {
      label: t("panels.show_results"),
      icon: "image",
      isDisabled: run.num_results === 0,
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
