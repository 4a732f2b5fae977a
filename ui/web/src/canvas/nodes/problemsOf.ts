/** The checker's problems by where they are. */

import { t } from "../../i18n";
import type { Problem, ProblemKind } from "../../types";
import { worded } from "../../worded";

/** From the worst. */
export const KINDS: readonly ProblemKind[] = ["error", "estimate", "unknown"];

export const PROBLEM_ICONS = { error: "error", estimate: "warning", unknown: "info" } as const;

const byPlace = new WeakMap<readonly Problem[], Map<string, string>>();

/** The sentences about a node (`socket` null: all of them) or one of its sockets; "" where there are none. */
export function problemsOf(problems: readonly Problem[], node: string, socket: string | null): string {
  let found = byPlace.get(problems);
  if (!found) {
    found = new Map();
    for (const problem of problems) {
      for (const place of [problem.node, `${problem.node}.${problem.socket}`]) {
        const before = found.get(place);
        found.set(place, before ? `${before}\n${told(problem)}` : told(problem));
      }
    }
    byPlace.set(problems, found);
  }
  return found.get(socket === null ? node : `${node}.${socket}`) ?? "";
}

/** The worst kind among a node's problems; "" where it has none. */
export function worstOf(problems: readonly Problem[], node: string): ProblemKind | "" {
  const own = problems.filter((problem) => problem.node === node).map((problem) => problem.kind);
  return KINDS.find((kind) => own.includes(kind)) ?? "";
}

/** What is no fact says so. */
function told({ kind, code, message }: Problem): string {
  return kind === "error" || code === "unknown_words"
    ? worded(message)
    : `${t(`core.problem_${kind}`)}: ${worded(message)}`;
}
