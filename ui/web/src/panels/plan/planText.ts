/** A parallel plan as degrees, and as the text that the server reads, such as `cfg=2,ulysses=2`. */

import type { PlanStrategies } from "../../types";

export const DEGREES = ["cfg", "ulysses", "ring", "allgather", "weights"] as const;
export type Degree = (typeof DEGREES)[number];

export const TEXT_CHOICES = ["auto", "sharded", "replicated"] as const;

export const ONE_RANK: PlanStrategies = { cfg: 1, ulysses: 1, ring: 1, allgather: 1, weights: 1, text: "auto" };

export function planText(plan: PlanStrategies): string {
  const degrees = DEGREES.filter((name) => plan[name] !== 1).map((name) => `${name}=${plan[name]}`);
  const text = plan.text === "auto" || plan.text === "" ? [] : [`text=${plan.text}`];
  return [...degrees, ...text].join(",") || "ulysses=1";
}

export function parsePlan(text: string): PlanStrategies {
  const plan = { ...ONE_RANK };
  for (const part of text.split(",")) {
    const [name = "", value = ""] = part.split("=").map((piece) => piece.trim());
    const degree = DEGREES.find((known) => known === name);
    if (degree && /^\d+$/.test(value)) plan[degree] = Number(value);
    if (name === "text") plan.text = value;
  }
  return plan;
}

export function numRanks(plan: PlanStrategies): number {
  return plan.cfg * plan.ulysses * plan.ring * plan.allgather;
}

/** With one degree changed. Ring and allgather exclude each other, so that one puts the other back to 1. */
export function withDegree(plan: PlanStrategies, name: Degree, degree: number): PlanStrategies {
  const changed = { ...plan, [name]: degree };
  if (name === "ring" && degree > 1) changed.allgather = 1;
  if (name === "allgather" && degree > 1) changed.ring = 1;
  return changed;
}
