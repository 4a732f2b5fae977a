import { useMemo, useRef, useState } from "react";
import { fromFile } from "../graph/file/workflowFile";
import { ApiError, sentence } from "../host";
import { t } from "../i18n";
import { openUnsaved } from "../panels/files/fileActions";
import { submit as ask } from "../panels/runs/submit";
import { go } from "../store/page";
import type { Catalog, EditorGraph, GraphFile, InputSpec, Problem } from "../types";
import { ChangeOfFields, GraphOfFields } from "../widgets/graphOfFields";
import { isKept, newSeed } from "../widgets/numbers/seeds";
import { fieldsOf, groupsOf, missing, seedsOf, withDefaults, type FormValues } from "./formFields";
import { keep, keptOf } from "./formMemory";
import { FormPanel } from "./FormPanel";
import { Offers } from "./Offers";
import { Outcome } from "./Outcome";
import type { Choice } from "./useChoices";
import { useForm } from "./useForm";
import { useMeant } from "./useMeant";

interface MakerProps {
  choice: Choice;
  graph: GraphFile;
  catalog: Catalog;
}

/** The form of one workflow and what came of it. */
export function Maker({ choice, graph, catalog }: MakerProps) {
  const fields = useMemo(() => fieldsOf(graph, catalog), [graph, catalog]);
  const form = useForm(choice.canvas ? "" : choice.key, fields);
  const [run, setRun] = useState(() => keptOf(choice.key).run);
  const [problems, setProblems] = useState<readonly Problem[]>([]);
  const { meant, tokens, shapes } = useMeant(graph, form.values);
  const [isSending, setSending] = useState(false);
  const outcome = useRef<HTMLDivElement>(null);
  const seeds = seedsOf(fields);
  const seedKey = (name: string) => `#${choice.key}.${name}`;

  const submit = async (values: FormValues) => {
    if (isSending) return;
    const empty = missing(fields, values);
    setProblems(empty.map((name) => problemOf(name, t("simple.fill_in"))));
    if (empty.length > 0) return;
    setSending(true);
    try {
      const { runs } = await ask({ graph, overrides: values, workflow_id: choice.workflow?.id ?? null });
      const first = runs[0] ?? null;
      setRun(first);
      keep(choice.key, { run: first });
      showOutcome(outcome.current);
    } catch (error) {
      const found = error instanceof ApiError ? error.problems : [];
      setProblems(found.length > 0 ? found : [problemOf("", sentence(error))]);
    } finally {
      setSending(false);
    }
  };
  const runWithNew = (changing: readonly InputSpec[]) => {
    const drawn = Object.fromEntries(changing.map((seed) => [seed.name, newSeed(seed)]));
    const values = { ...form.now(), ...drawn };
    form.replace(values);
    void submit(values);
  };
  const graphNow = () => fromFile(withDefaults(graph, form.now()));
  const change = (_: string, make: (last: EditorGraph) => EditorGraph) => {
    const before = graphNow();
    for (const [name, param] of Object.entries(make(before).params)) {
      const next = param.default;
      if (next !== undefined && next !== before.params[name]?.default) form.set(name, next, true);
    }
  };
  const openInBuild = (values: FormValues) => {
    go("build"); // what is not saved there is asked about there
    void openUnsaved(withDefaults(graph, values), choice.name);
  };

  return (
    <div className="ll-simple-columns">
      <GraphOfFields.Provider value={graphNow}>
        <ChangeOfFields.Provider value={{ change, isOfForm: true }}>
          <FormPanel
            idPrefix={`ll-simple-${choice.key}`}
            groups={groupsOf(graph, fields)}
            form={form}
            problems={problems}
            meant={meant}
            tokens={tokens}
            shapes={shapes}
            isSending={isSending}
            seedKey={seedKey}
            offers={choice.canvas ? <Offers /> : null}
            onRun={() => runWithNew(seeds.filter(({ name }) => !isKept(seedKey(name))))}
          />
        </ChangeOfFields.Provider>
      </GraphOfFields.Provider>
      <div ref={outcome} className="ll-simple-outcome">
        <Outcome
          runId={run}
          graph={graph}
          catalog={catalog}
          onOpen={openInBuild}
          onAgain={seeds.length > 0 ? () => runWithNew(seeds) : null}
        />
      </div>
    </div>
  );
}

/** On a phone it is below the form. */
function showOutcome(element: HTMLElement | null): void {
  if (element && element.getBoundingClientRect().top > window.innerHeight / 2) element.scrollIntoView();
}

function problemOf(socket: string, message: string): Problem {
  return { node: "", socket, code: "", message, kind: "error", mends: [], inside: "" };
}
