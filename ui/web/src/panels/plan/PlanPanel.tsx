import { useId, useState } from "react";
import { sizeOf } from "../../canvas/commands/itemCommands";
import { host } from "../../host";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { Notice } from "../../parts/Notice";
import { Spinner } from "../../parts/Spinner";
import { editWhole, editorStore } from "../../store/editor";
import { toast } from "../../store/page";
import type { PlanView } from "../../types";
import { setNextPlan, tryPlan, usePanels, type NextPlan } from "../panelState";
import { useAnswer } from "../useAnswer";
import { DeviceList } from "./DeviceList";
import { History } from "./History";
import { PlanChoices } from "./PlanChoices";
import { PlanDegrees } from "./PlanDegrees";
import { withPlan } from "./planNode";
import { PlannedFor } from "./PlannedFor";
import { PlanOfNode } from "./PlanOfNode";
import { worded } from "../../worded";

/** Before a run: the devices found, the plan chosen and why, what each rank needs, and what other plans would do. */
export function PlanPanel() {
  const tried = usePanels((state) => state.triedPlan);
  const next = usePanels((state) => state.nextPlan);
  const machine = usePanels((state) => state.machine);
  const [numMeasured, setNumMeasured] = useState(0);
  const asked = tried ?? (machine ? null : next);
  const { value, error, isLoading } = useAnswer(
    (graph, signal) => host.plan({ graph, machine, ...asked }, signal),
    JSON.stringify([asked, machine, numMeasured]),
  );
  if (!value) {
    return (
      <div className="ll-panel">
        {error ? <Notice kind="error">{error}</Notice> : <Spinner label={t("panels.planning")} isVisible />}
      </div>
    );
  }
  return (
    <div className="ll-panel ll-plan" aria-busy={isLoading}>
      {error && <Notice kind="error">{error}</Notice>}
      {value.problem && value.nodes.length === 0 && (
        <Notice kind={machine ? "warning" : "info"}>{worded(value.problem)}</Notice>
      )}
      <PlannedFor
        machine={value.nodes.find((node) => node.prediction)?.prediction?.machine ?? null}
        examples={value.examples}
        onMeasured={() => setNumMeasured(numMeasured + 1)}
      />
      {!machine && <DeviceList devices={value.devices} />}
      {value.nodes.map((node) => (
        <PlanOfNode key={node.node} node={node} devices={value.devices} />
      ))}
      {value.nodes.length > 0 && <ByHand view={value} tried={tried} next={machine ? null : next} isHere={!machine} />}
      {value.choices.length > 0 && (
        <PlanChoices choices={value.choices} current={value.nodes[0]?.plan ?? ""} devices={value.devices} />
      )}
      <History />
    </div>
  );
}

interface ByHandProps {
  view: PlanView;
  tried: NextPlan | null;
  next: NextPlan | null;
  /** Whether the devices are the server's own; a plan for others is only looked at. */
  isHere: boolean;
}

/** The degrees, to be changed, and what to do with them. */
function ByHand({ view, tried, next, isHere }: ByHandProps) {
  const id = useId();
  return (
    <section aria-labelledby={id}>
      <header className="ll-panel-head">
        <h3 id={id}>{t("panels.by_hand")}</h3>
        {(tried || next) && (
          <Button
            kind="ghost"
            onClick={() => {
              tryPlan(null);
              setNextPlan(null);
            }}
          >
            {t("panels.plan_auto")}
          </Button>
        )}
      </header>
      {view.problem && <Notice kind="warning">{worded(view.problem)}</Notice>}
      <PlanDegrees view={view} tried={tried ?? next} />
      {next && <p className="ll-quiet">{t("panels.plan_next_set", { plan: next.plan })}</p>}
      {isHere && (
        <div className="ll-plan-apply">
          <Button disabled={!tried} onClick={() => tried && putIntoWorkflow(view, tried)}>
            {t("panels.plan_put")}
          </Button>
          <Button disabled={!tried} onClick={() => tried && keepForNext(tried)}>
            {t("panels.plan_next")}
          </Button>
        </div>
      )}
    </section>
  );
}

function keepForNext(chosen: NextPlan): void {
  setNextPlan(chosen);
  tryPlan(null);
}

function putIntoWorkflow(view: PlanView, chosen: NextPlan): void {
  const { catalog, whole: graph } = editorStore.getState();
  editWhole(t("panels.edit_plan"), (last) =>
    view.nodes.reduce((changed, { node }) => withPlan(changed, catalog, { node, ...chosen }, sizeOf), last),
  );
  const isPlaced = editorStore.getState().whole !== graph;
  if (isPlaced) tryPlan(null);
  toast({ kind: isPlaced ? "success" : "info", text: t(isPlaced ? "panels.plan_placed" : "panels.plan_same") });
}
