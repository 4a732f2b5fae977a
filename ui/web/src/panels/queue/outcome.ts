/** What a run was predicted to take beside what it took, of the parts that were both predicted and measured. */

import { t } from "../../i18n";
import { formatDuration, formatPercent } from "../../parts/format";
import type { NodeState } from "../../types";

/** Times as long from which on a percentage tells nobody anything. */
const MOST = 2;

/** "predicted 5.2 s, took 5.6 s (+8 %)" of all denoises together; "" where none was predicted and measured. */
export function outcomeText(nodes: Readonly<Record<string, NodeState>>): string {
  const pairs = Object.values(nodes).flatMap(pairsOf);
  const predicted = pairs.reduce((sum, [seconds]) => sum + seconds, 0);
  const took = pairs.reduce((sum, [, seconds]) => sum + seconds, 0);
  if (predicted <= 0) return "";
  const isBusy = Object.values(nodes).some((node) => node.took?.is_busy);
  const off = isBusy
    ? t("panels.was_busy")
    : took > MOST * predicted
      ? t("panels.took_longer")
      : formatPercent(took / predicted - 1);
  return t("panels.predicted_took", { predicted: formatDuration(predicted), took: formatDuration(took), off });
}

/** Seconds, predicted and taken; loading and what is warmed up are in neither. */
function pairsOf({ foreseen, took }: NodeState): [number, number][] {
  if (!foreseen || !took) return [];
  const parts: [number, number | null][] = [
    [foreseen.text_s, took.text_s],
    [foreseen.step_s * took.steps, took.step_s === null ? null : took.step_s * took.steps],
    [foreseen.decode_s, took.decode_s],
  ];
  return parts.filter((part): part is [number, number] => part[0] > 0 && part[1] !== null);
}
