import type { Device } from "../types";

/** Of a device's memory, what a run needs beside the weights. */
const SPARE = 0.9;

/** The device that a whole model of this size fits on, an accelerator before the CPU; null where none has the memory. */
export function deviceFor(numBytes: number, devices: readonly Device[]): Device | null {
  const fitting = devices.filter(({ total_bytes }) => numBytes <= SPARE * total_bytes);
  return fitting.find(({ name }) => name !== "cpu") ?? fitting[0] ?? null;
}
