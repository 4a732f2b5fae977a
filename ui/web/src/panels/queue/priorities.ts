/** When waiting runs go, among one's own: the entries of a menu. */

import { t } from "../../i18n";
import type { IconName } from "../../parts/icons";
import type { MenuAction } from "../../parts/overlays/Menu";
import type { Priority } from "../../types";
import { prioritize } from "../runs/runActions";

const ICONS: Record<Priority, IconName> = { next: "arrow-up", normal: "queue", idle: "clock" };
const PRIORITIES: readonly Priority[] = ["next", "normal", "idle"];

/** `now` is the one that they have. */
export function priorityItems(runs: readonly string[], now?: Priority): MenuAction[] {
  return PRIORITIES.map((priority) => ({
    label: t(`panels.priority_${priority}`),
    icon: ICONS[priority],
    isDisabled: priority === now,
    onSelect: () => void prioritize(runs, priority),
  }));
}
