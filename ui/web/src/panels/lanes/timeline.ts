/** What each device or rank of a run did when, as far as the states of its nodes tell. */

import type { Device, NodeState, RankWork, Run } from "../../types";
import { numRanks, parsePlan } from "../plan/planText";

export interface Segment {
  node: string;
  /** Seconds since the run began. */
  from: number;
  to: number;
  isOpen: boolean;
  /** Steps within it: done of total; total is 0 where it has none. */
  done: number;
  total: number;
  phase: string;
}

export interface Lane {
  rank: number;
  /** "" until the rank has reported where it is. */
  device: string;
  segments: Segment[];
  sentBytes: number;
  exchanges: number;
  /** Of the last work in which something was sent; 0 before. */
  bytesPerSecond: number;
  peakBytes: number;
}

interface LaneInput {
  run: Run;
  devices: readonly Device[];
  /** Epoch seconds on the server's clock. */
  now: number;
  usesDevice: (node: string) => boolean;
}

/** One lane per rank; of a run without ranks, one for its device. */
export function lanesOf({ run, devices, now, usesDevice }: LaneInput): Lane[] {
  const worked = Object.entries(run.nodes).filter(([name, node]) => node.ranks.length > 0 || usesDevice(name));
  const names = new Map<number, string>();
  for (const [, node] of worked) for (const work of node.ranks) names.set(work.rank, work.device);
  const count = Math.max(numRanksOf(run), names.size, 1);
  const only = count === 1 || devices.length === 1 ? (devices[0]?.name ?? "") : "";
  return Array.from({ length: count }, (_, rank) =>
    laneOf(rank, { run, worked, now, device: names.get(rank) ?? only }),
  );
}

interface OneLane {
  run: Run;
  worked: [string, NodeState][];
  now: number;
  device: string;
}

function laneOf(rank: number, { run, worked, now, device }: OneLane): Lane {
  const lane: Lane = { rank, device, segments: [], sentBytes: 0, exchanges: 0, bytesPerSecond: 0, peakBytes: 0 };
  for (const [name, node] of worked) {
    const work = node.ranks.find((entry) => entry.rank === rank);
    const hasPart = node.ranks.length === 0 ? rank === 0 || mayBeOnAll(node) : work !== undefined;
    const segment = hasPart ? segmentOf(name, node, { run, now }) : null;
    if (segment) lane.segments.push(segment);
    if (work) addWork(lane, work);
  }
  lane.segments.sort((a, b) => a.from - b.from);
  return lane;
}

/** Of a node that has told no ranks: they tell at their end, and one that was cut off does not come to it. */
function mayBeOnAll({ state, plan }: NodeState): boolean {
  return numRanks(parsePlan(plan)) > 1 || state === "running" || state === "cancelled" || state === "failed";
}

function addWork(lane: Lane, work: RankWork): void {
  lane.sentBytes += work.sent_bytes;
  lane.exchanges += work.exchanges;
  lane.peakBytes = Math.max(lane.peakBytes, work.peak_memory_bytes);
  if (work.sent_bytes > 0 && work.seconds > 0) lane.bytesPerSecond = work.sent_bytes / work.seconds;
}

function segmentOf(name: string, node: NodeState, { run, now }: { run: Run; now: number }): Segment | null {
  if (!node.started || !run.started || node.state === "cached" || node.state === "skipped") return null;
  const isOpen = node.state === "running";
  const from = Math.max(node.started - run.started, 0);
  const to = isOpen ? Math.max(now - run.started, from) : from + node.seconds;
  return { node: name, from, to, isOpen, done: node.done, total: node.total, phase: node.phase };
}

/** From the plan of the run or of one of its nodes: the product of its degrees. */
function numRanksOf(run: Run): number {
  const plans = [run.plan, ...Object.values(run.nodes).map((node) => node.plan)];
  return Math.max(1, ...plans.map((plan) => numRanks(parsePlan(plan))));
}
