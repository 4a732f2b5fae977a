/** When the runs of the queue begin, as far as it is known. */

import { language, t } from "../../i18n";
import { formatSeconds } from "../../parts/format";
import { leftAt } from "../../store/left";
import type { QueueEntry, Run } from "../../types";

type Runs = Readonly<Record<string, Pick<Run, "left_s" | "left_at">>>;

export interface Wait {
  /** Among all that wait, from 1. */
  place: number;
  /** null where nobody knows how long any of those before it takes. */
  seconds: number | null;
  /** Of one of those before it nobody knows. */
  isLeast: boolean;
}

/** By the ids of one's own; of these the `runs` tell best how long they take yet. `now` in epoch seconds on the server's
 * clock. */
export function waitsOf(queue: readonly QueueEntry[], runs: Runs, now: number): Map<string, Wait> {
  const waits = new Map<string, Wait>();
  let [place, before, isKnown, isLeast] = [0, 0, false, false];
  for (const entry of queue) {
    const { id, state } = entry;
    if (state === "waiting") {
      place += 1;
      if (id) waits.set(id, { place, seconds: isKnown ? before : null, isLeast });
    }
    const left = state === "waiting" ? entry.left_s : (leftOf(runs[id ?? ""], now) ?? leftOf(entry, now));
    if (left === null) isLeast = true;
    else {
      isKnown = true;
      before += left;
    }
  }
  return waits;
}

function leftOf(told: Pick<QueueEntry, "left_s" | "left_at"> | undefined, now: number): number | null {
  return told ? leftAt(told, now) : null;
}

/** "3rd, in about 40 s" */
export function waitText({ place, seconds, isLeast }: Wait): string {
  const form = new Intl.PluralRules(language(), { type: "ordinal" }).select(place) as "one" | "two" | "few" | "other";
  const nth = t(`panels.nth_${form}`, { n: place });
  if (seconds === null) return t("panels.wait", { nth });
  return t(isLeast ? "panels.wait_least" : "panels.wait_about", { nth, time: formatSeconds(about(seconds)) });
}

/** As exactly as a prediction deserves. */
function about(seconds: number): number {
  const grain = seconds < 10 ? 1 : seconds < 60 ? 5 : seconds < 600 ? 10 : 60;
  return Math.max(Math.ceil(seconds / grain) * grain, 1);
}
