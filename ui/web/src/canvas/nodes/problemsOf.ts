/** The checker's problems by where they are. */

import type { Problem } from "../../types";

const byPlace = new WeakMap<readonly Problem[], Map<string, string>>();

/** The sentences about a node (`socket` null: all of them) or one of its sockets; "" where there are none. */
export function problemsOf(problems: readonly Problem[], node: string, socket: string | null): string {
  let found = byPlace.get(problems);
  if (!found) {
    found = new Map();
    for (const problem of problems) {
      for (const place of [problem.node, `${problem.node}.${problem.socket}`]) {
        const before = found.get(place);
        found.set(place, before ? `${before}\n${problem.message}` : problem.message);
      }
    }
    byPlace.set(problems, found);
  }
  return found.get(socket === null ? node : `${node}.${socket}`) ?? "";
}
