/** Messages of the server as it sends them, whole, from what a test says of them. */

import type { LiveMessage, Me, Run } from "../src/types";

export const ME: Me = {
  user: "ann",
  has_auth: true,
  version: "1",
  output_dir_name: "output",
  max_upload_bytes: 1,
  most_waiting: 1000,
  allows_downloads: false,
  template_files: [],
};

export function liveRun(id: string, facts: Partial<Run> = {}): Run {
  return {
    id,
    batch: "batch",
    name: "toy",
    workflow_id: null,
    state: "running",
    priority: "normal",
    created: 99,
    started: 100,
    ended: null,
    seconds: 0,
    error: "",
    code: "",
    note: "",
    plan: "",
    varied: {},
    done: 0,
    total: 0,
    left_s: null,
    left_at: 0,
    is_left_least: true,
    num_results: 0,
    newest_result: null,
    overrides: {},
    targets: null,
    nodes: {},
    ...facts,
  };
}

export function liveMessage(runs: Record<string, Partial<Run>>, more: Partial<LiveMessage> = {}): LiveMessage {
  const whole = Object.fromEntries(Object.entries(runs).map(([id, facts]) => [id, liveRun(id, facts)]));
  return {
    seq: 1,
    full: false,
    t: 0,
    server: "s1",
    runs: whole,
    removed: [],
    library: 0,
    results: 0,
    downloads: 0,
    ...more,
  };
}
