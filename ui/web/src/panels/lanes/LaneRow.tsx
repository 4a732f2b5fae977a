import { t } from "../../i18n";
import { formatBytes, formatSeconds } from "../../parts/format";
import { Meter } from "../../parts/Meter";
import type { Device } from "../../types";
import type { Lane, Segment } from "./timeline";
import { worded } from "../../worded";

interface LaneRowProps {
  lane: Lane;
  hasRanks: boolean;
  /** The run has begun, and none of its nodes. */
  isStarting: boolean;
  /** The length of the time line. */
  seconds: number;
  device: Device | undefined;
  titleOf: (node: string) => string;
  /** The colour that it has on the canvas, by number. */
  toneOf: (node: string) => number;
}

/** One lane: what the rank does now, its time line, its memory, what it sent. */
export function LaneRow({ lane, hasRanks, isStarting, seconds, device, titleOf, toneOf }: LaneRowProps) {
  const open = lane.segments.find((segment) => segment.isOpen);
  const name = hasRanks ? rankName(lane) : lane.device;
  return (
    <li className="ll-lane" data-testid={`lane-${lane.rank}`}>
      <span className="ll-lane-name">{name}</span>
      <span className="ll-lane-now">
        {open ? workText(open, titleOf) : t(isStarting ? "panels.starting" : "panels.idle")}
      </span>
      <TimeLine lane={lane} seconds={seconds} titleOf={titleOf} toneOf={toneOf} />
      <Memory name={name} device={device} peakBytes={lane.peakBytes} />
      <span className="ll-lane-traffic">{trafficText(lane)}</span>
    </li>
  );
}

function TimeLine({ lane, seconds, titleOf, toneOf }: Omit<LaneRowProps, "hasRanks" | "isStarting" | "device">) {
  return (
    <div className="ll-timeline" role="img" aria-label={timeLineText(lane, titleOf)}>
      {lane.segments.map((segment) => (
        <span
          key={segment.node}
          className={`ll-segment ll-tone-${toneOf(segment.node)} ${segment.isOpen ? "ll-segment-open" : ""}`}
          title={segmentText(segment, titleOf)}
          style={{
            left: `${(segment.from / seconds) * 100}%`,
            width: `${((segment.to - segment.from) / seconds) * 100}%`,
          }}
        >
          {segment.total > 1 && segment.total <= 200 && (
            <span className="ll-segment-steps" style={{ backgroundSize: `${100 / stepsShown(segment)}% 100%` }} />
          )}
          <span className="ll-segment-name">{titleOf(segment.node)}</span>
        </span>
      ))}
    </div>
  );
}

function Memory({ name, device, peakBytes }: { name: string; device: Device | undefined; peakBytes: number }) {
  if (!device) return <span className="ll-lane-memory" />;
  const text = t("panels.memory_used", {
    used: formatBytes(device.used_bytes),
    total: formatBytes(device.total_bytes),
  });
  const peak = peakBytes > 0 ? t("panels.peak", { bytes: formatBytes(peakBytes) }) : "";
  return (
    <span className="ll-lane-memory" title={[text, peak].filter(Boolean).join(", ")}>
      <Meter
        kind="level"
        label={t("panels.memory_of", { device: name })}
        value={device.used_bytes}
        max={device.total_bytes}
        text={text}
      />
      <span>{text}</span>
    </span>
  );
}

function rankName({ rank, device }: Lane): string {
  return device ? t("panels.rank", { rank, device }) : t("panels.rank_somewhere", { rank });
}

/** Of an open one, only the steps that are done are drawn. */
function stepsShown({ isOpen, done, total }: Segment): number {
  return Math.max(isOpen ? done : total, 1);
}

function workText(segment: Segment, titleOf: (node: string) => string): string {
  const steps = segment.total > 0 ? ` ${segment.done}/${segment.total}` : "";
  return segment.phase ? `${titleOf(segment.node)}: ${worded(segment.phase)}` : `${titleOf(segment.node)}${steps}`;
}

function segmentText(segment: Segment, titleOf: (node: string) => string): string {
  return t("panels.segment", {
    node: workText(segment, titleOf),
    from: formatSeconds(segment.from),
    length: formatSeconds(segment.to - segment.from),
  });
}

function timeLineText(lane: Lane, titleOf: (node: string) => string): string {
  return lane.segments.map((segment) => segmentText(segment, titleOf)).join("; ") || t("panels.idle");
}

function trafficText({ sentBytes, exchanges, bytesPerSecond }: Lane): string {
  if (exchanges === 0) return "";
  return t("panels.traffic", { bytes: formatBytes(sentBytes), exchanges, rate: formatBytes(bytesPerSecond) });
}
