import { useRef, useState, type ReactNode } from "react";
import { ApiError, sentence } from "../host";
import { t } from "../i18n";
import type { InputSpec, Problem, Submitted } from "../types";
import { isKept, newSeed } from "../widgets/numbers/seeds";
import { missing, seedsOf, type FieldGroup, type FormValues } from "./formFields";
import { keep, keptOf } from "./formMemory";
import { FormPanel } from "./FormPanel";
import type { Form } from "./useForm";
import type { MeantOfForm } from "./useMeant";

interface MakingProps {
  /** Under which this browser remembers the last run. */
  id: string;
  groups: readonly FieldGroup[];
  form: Form;
  known: MeantOfForm;
  /** What the form could have besides. */
  offers?: ReactNode;
  /** Asks the server for a run with these values. */
  ask: (values: FormValues) => Promise<Submitted>;
  /** What came of a run. `again` makes one with other seeds; null where there is none. */
  outcome: (run: string | null, again: (() => void) | null) => ReactNode;
}

/** A form that starts runs, and what came of the last one beside it; on a phone below. */
export function Making({ id, groups, form, known, offers = null, ask, outcome }: MakingProps) {
  const [run, setRun] = useState(() => keptOf(id).run);
  const [problems, setProblems] = useState<readonly Problem[]>([]);
  const [isSending, setSending] = useState(false);
  const shown = useRef<HTMLDivElement>(null);
  const fields = groups.flatMap((group) => group.fields);
  const seeds = seedsOf(fields);
  const seedKey = (name: string) => `#${id}.${name}`;

  const submit = async (values: FormValues) => {
    if (isSending) return;
    const empty = missing(fields, values);
    setProblems(empty.map((name) => problemOf(name, t("simple.fill_in"))));
    if (empty.length > 0) return;
    setSending(true);
    try {
      const first = (await ask(values)).runs[0] ?? null;
      setRun(first);
      keep(id, { run: first });
      showOutcome(shown.current);
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
  return (
    <div className="ll-simple-columns">
      <FormPanel
        idPrefix={`ll-simple-${id}`}
        groups={groups}
        form={form}
        problems={problems}
        {...known}
        isSending={isSending}
        seedKey={seedKey}
        offers={offers}
        onRun={() => runWithNew(seeds.filter(({ name }) => !isKept(seedKey(name))))}
      />
      <div ref={shown} className="ll-simple-outcome">
        {outcome(run, seeds.length > 0 ? () => runWithNew(seeds) : null)}
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
