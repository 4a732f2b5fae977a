import { useId, useState } from "react";
import { host, sentence } from "../../host";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { Notice } from "../../parts/Notice";
import { Combobox } from "../../parts/overlays/Combobox";
import type { PlanMachine } from "../../types";
import { worded } from "../../worded";
import { planFor, usePanels } from "../panelState";

interface PlannedForProps {
  machine: PlanMachine | null;
  examples: readonly string[];
  onMeasured: () => void;
}

/** Which machine the plans are for, what is known of it, and how to know more. */
export function PlannedFor({ machine, examples, onMeasured }: PlannedForProps) {
  const id = useId();
  const named = usePanels((state) => state.machine);
  return (
    <section aria-labelledby={id}>
      <h3 id={id}>{t("panels.machine")}</h3>
      <Combobox
        label={t("panels.machine")}
        value={named}
        options={[{ value: "", label: t("panels.this_machine") }, ...examples.map((value) => ({ value }))]}
        isFree
        placeholder={t("panels.this_machine")}
        onChange={planFor}
      />
      {machine && (
        <p className="ll-quiet">
          {worded(machine.title)}. {t(`panels.by_${basisOf(machine)}`)}
        </p>
      )}
      {!named && <Measure onMeasured={onMeasured} />}
    </section>
  );
}

function basisOf({ is_measured, is_assumed }: PlanMachine): "measured" | "assumed" | "sheets" {
  if (is_measured) return "measured";
  return is_assumed ? "assumed" : "sheets";
}

function Measure({ onMeasured }: { onMeasured: () => void }) {
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  const measure = async () => {
    setBusy(true);
    setProblem("");
    try {
      await host.measure();
      onMeasured();
    } catch (error) {
      setProblem(sentence(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <>
      <Button icon="clock" isBusy={isBusy} title={t("panels.measure_help")} onClick={() => void measure()}>
        {t(isBusy ? "panels.measuring" : "panels.measure")}
      </Button>
      {problem && <Notice kind="warning">{problem}</Notice>}
    </>
  );
}
