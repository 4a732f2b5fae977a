import { useId, useState, type FormEvent } from "react";
import { host, sentence } from "../../host";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { Meter } from "../../parts/Meter";
import { Notice } from "../../parts/Notice";
import { Spinner } from "../../parts/Spinner";
import { isOver, useRun } from "../../store/live";
import { toast } from "../../store/page";
import type { GraphFile, Json, Result, RunWithGraph } from "../../types";
import { Field } from "../../widgets/Field";
import { useRunRecord } from "../useRunRecord";
import { changeable, inputOf, valueOf } from "./changeable";
import { worded } from "../../worded";

/** Run the workflow of a result once more, with one value changed. */
export function Rerun({ result }: { result: Result }) {
  const { run, problem } = useRunRecord(result.run);
  if (problem) return <Notice kind="error">{problem}</Notice>;
  if (!run) return <Spinner label={t("gallery.loading")} isVisible />;
  if (!run.graph) return <Notice kind="error">{t("gallery.no_graph")}</Notice>;
  return <OneChange graph={run.graph} run={run} />;
}

function OneChange({ graph, run }: { graph: GraphFile; run: RunWithGraph }) {
  const names = changeable(graph);
  const id = useId();
  const [name, setName] = useState(names.includes("seed") ? "seed" : (names[0] ?? ""));
  const [values, setValues] = useState<Record<string, Json>>({});
  const [started, setStarted] = useState("");
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);

  const spec = inputOf(graph, name);
  const value = name in values ? (values[name] ?? null) : valueOf(graph, name);

  const submit = async (event: FormEvent) => {
    event.preventDefault();
    setBusy(true);
    setProblem("");
    try {
      const { targets, workflow_id } = run;
      const { runs } = await host.submit({ graph, overrides: { [name]: value }, targets, workflow_id });
      const first = runs[0] ?? "";
      setStarted(first);
      toast({ kind: "success", text: t("gallery.rerun_started"), run: first });
    } catch (error) {
      setProblem(sentence(error));
    }
    setBusy(false);
  };

  if (!spec) return <Notice>{t("gallery.nothing_to_change")}</Notice>;
  return (
    <form className="ll-rerun" onSubmit={(event) => void submit(event)}>
      <label htmlFor={`${id}-name`}>{t("gallery.change")}</label>
      <select id={`${id}-name`} className="ll-input" value={name} onChange={(event) => setName(event.target.value)}>
        {names.map((each) => (
          <option key={each}>{each}</option>
        ))}
      </select>
      <Field
        key={name}
        spec={spec}
        id={`${id}-value`}
        value={value}
        onChange={(next) => setValues({ ...values, [name]: next })}
      />
      <Button kind="primary" icon="play" type="submit" isBusy={isBusy}>
        {t("gallery.run_changed")}
      </Button>
      {problem && <Notice kind="error">{problem}</Notice>}
      {started && <Progress id={started} />}
    </form>
  );
}

function Progress({ id }: { id: string }) {
  const run = useRun(id);
  if (!run) return null;
  return (
    <div className="ll-rerun-progress" role="status">
      <span>{worded(run.error) || t(`gallery.state_${run.state}`)}</span>
      {!isOver(run.state) && <Meter label={t("gallery.progress")} value={run.done} max={run.total} />}
    </div>
  );
}
