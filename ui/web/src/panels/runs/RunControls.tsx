import { useRef, useState } from "react";
import { idsOf } from "../../graph/items";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { IconButton } from "../../parts/IconButton";
import { Menu, type MenuItem } from "../../parts/overlays/Menu";
import { useEditor } from "../../store/editor";
import { isOver, useLive } from "../../store/live";
import { openDialog } from "../../store/page";
import { hintOf } from "../pageShortcuts";
import { usePanels } from "../panelState";
import { cancel, cancelAll, currentRun, run, runTo } from "./runActions";

const COUNTS = [2, 4, 8];

/** Run, with its other ways in a menu, and Cancel. */
export function RunControls() {
  const [isOpen, setOpen] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const split = useRef<HTMLDivElement>(null);
  const isEmpty = useEditor((state) => Object.keys(state.whole.nodes).length === 0);
  const selection = useEditor((state) => state.selection);
  const hasPlan = usePanels((state) => state.nextPlan !== null);
  const numActive = useLive((state) => Object.values(state.runs).filter((other) => !isOver(other.state)).length);
  const canCancel = useLive(() => currentRun() !== null);
  const selected = idsOf(selection, "node");

  const busily = async (work: Promise<boolean>) => {
    setBusy(true);
    await work;
    setBusy(false);
  };
  const items: MenuItem[] = [
    { label: t("panels.run"), icon: "play", hint: hintOf("run"), onSelect: () => void busily(run()) },
    {
      label: t("panels.run_selected"),
      hint: hintOf("runSelected"),
      isDisabled: selected.length === 0,
      onSelect: () => void busily(runTo(...selected)),
    },
    { label: t("panels.run_sweep"), icon: "grid", onSelect: () => openDialog("sweep") },
    "-",
    ...COUNTS.map((count) => ({
      label: t("panels.run_times", { count }),
      onSelect: () => void busily(run({ count })),
    })),
    "-",
    {
      label: t("panels.cancel_all"),
      icon: "stop",
      isDisabled: numActive === 0,
      isDanger: true,
      onSelect: () => void cancelAll(),
    },
  ];
  return (
    <div className="ll-run-controls">
      <div className="ll-split" ref={split}>
        <Button
          kind="primary"
          icon="play"
          isBusy={isBusy}
          disabled={isEmpty}
          title={`${t("panels.run")} (${hintOf("run")})`}
          onClick={() => void busily(run())}
        >
          {t("panels.run")}
        </Button>
        <IconButton
          icon="chevron-down"
          label={t("panels.run_more")}
          className="ll-split-more"
          aria-haspopup="menu"
          aria-expanded={isOpen}
          disabled={isEmpty}
          onClick={() => setOpen(!isOpen)}
        />
      </div>
      {isOpen && <Menu label={t("panels.run_more")} items={items} at={split} onClose={() => setOpen(false)} />}
      <IconButton icon="stop" label={t("panels.cancel")} disabled={!canCancel} onClick={() => void cancel()} />
      {hasPlan && <span className="ll-next-plan ll-wide-only">{t("panels.with_plan")}</span>}
    </div>
  );
}
