/** Devices for a number of ranks, as the server reads them. */

import type { Device } from "../../types";

/** The first accelerators where there are enough of them, else processes on the CPU: `cuda:0,cuda:1` or `cpu*2`. */
export function devicesFor(numRanks: number, devices: readonly Device[]): string {
  const accelerators = devices.map((device) => device.name).filter((name) => name !== "cpu");
  if (accelerators.length >= numRanks) return accelerators.slice(0, numRanks).join(",");
  return accelerators.length > 0 ? accelerators.join(",") : `cpu*${numRanks}`;
}
