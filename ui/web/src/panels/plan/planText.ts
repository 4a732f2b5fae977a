/** A parallel plan as degrees, and as the text that the server reads, such as `cfg=2,ulysses=2`. */

import type { PlanStrategies } from "../../types";

/** Ways to exchange the same keys and values: a plan has one of them. */
const EXCHANGES = ["ring", "allgather"] as const;
export const DEGREES = ["cfg", "layers", "ulysses", ...EXCHANGES, "weights"] as const;
export type Degree = (typeof DEGREES)[number];

export const TEXT_CHOICES = ["auto", "sharded", "replicated"] as const;

const ALONE = Object.fromEntries(DEGREES.map((name) => [name, 1])) as Record<Degree, number>;
export const ONE_RANK: PlanStrategies = { ...ALONE, text: "auto" };

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
  return DEGREES.filter((name) => name !== "weights").reduce((all, name) => all * plan[name], 1);
}

/** With one degree changed. Exchanges exclude each other, so that one puts the others back to 1. */
export function withDegree(plan: PlanStrategies, name: Degree, degree: number): PlanStrategies {
  const changed = { ...plan, [name]: degree };
  const isExchange = EXCHANGES.some((known) => known === name);
  if (isExchange && degree > 1) for (const other of EXCHANGES) if (other !== name) changed[other] = 1;
  return changed;
}
