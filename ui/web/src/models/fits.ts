/** What fits which devices: of each set of them the plan that needs least, with weights as they are and quantized. */

import type { PlanChoice, Quantized } from "../types";

export interface FitTable {
  /** "none", then each quantization. */
  columns: string[];
  rows: FitRow[];
}

export interface FitRow {
  devices: string;
  /** In the order of the columns; null where no plan is possible. */
  cells: (PlanChoice | null)[];
}

export function fitTable(plans: readonly PlanChoice[], quantized: readonly Quantized[]): FitTable {
  const columns = [{ quantization: "none", plans }, ...quantized];
  const devices = [...new Set(plans.map((plan) => plan.devices))];
  return {
    columns: columns.map(({ quantization }) => quantization),
    rows: devices.map((each) => ({
      devices: each,
      cells: columns.map((column) => leastOf(column.plans.filter((plan) => plan.devices === each))),
    })),
  };
}

/** Of the plans that are possible, one that fits before one that does not, then the one that needs least. */
function leastOf(plans: readonly PlanChoice[]): PlanChoice | null {
  const possible = plans.filter(({ problem }) => !problem);
  const [least] = possible.toSorted(
    (a, b) => Number(b.fits === true) - Number(a.fits === true) || a.bytes_per_device - b.bytes_per_device,
  );
  return least ?? null;
}
