import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { MenuButton } from "../../parts/overlays/Menu";
import type { Run } from "../../types";
import { cancelRuns } from "../runs/runActions";
import { priorityItems } from "./priorities";

interface ChosenBarProps {
  /** The ids of one's own that wait or run. */
  mine: readonly string[];
  runs: Readonly<Record<string, Run>>;
  chosen: ReadonlySet<string>;
  onChange: (chosen: ReadonlySet<string> | null) => void;
}

/** What can be done with the runs that are chosen; those that ended meanwhile are no longer. */
export function ChosenBar({ mine, runs, chosen, onChange }: ChosenBarProps) {
  const ids = mine.filter((id) => chosen.has(id));
  const waiting = ids.filter((id) => runs[id]?.state === "waiting");
  return (
    <div className="ll-queue-chosen" role="toolbar" aria-label={t("panels.queue_chosen_actions")}>
      <span role="status">{t("panels.queue_chosen", { count: ids.length })}</span>
      <Button
        kind="danger"
        icon="stop"
        disabled={ids.length === 0}
        onClick={() => {
          void cancelRuns(ids);
          onChange(null);
        }}
      >
        {t("panels.cancel_chosen")}
      </Button>
      <MenuButton
        icon="queue"
        hasText
        label={t("panels.priority")}
        disabled={waiting.length === 0}
        items={priorityItems(waiting)}
      />
      <Button kind="ghost" onClick={() => onChange(new Set(mine))}>
        {t("panels.queue_choose_all")}
      </Button>
    </div>
  );
}
