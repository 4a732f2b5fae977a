import { useCallback, useMemo } from "react";
import { limitOf } from "../../exact";
import { host } from "../../host";
import { t } from "../../i18n";
import type { AppForm, GraphFile, Run } from "../../types";
import { UnderMask } from "../../widgets/graphOfFields";
import { worded } from "../../worded";
import { Making } from "../Making";
import { Outcome } from "../Outcome";
import { underMaskOf } from "./underMaskOf";
import { useAppKnown } from "./useAppKnown";
import { useForm } from "../useForm";

/** What the page knows of an app's workflow. */
const NO_GRAPH: GraphFile = { format: 2, name: "", nodes: {} };

/** The form of an app and what came of it: of the workflow behind it the page has nothing. */
export function AppMaker({ token, app }: { token: string; app: AppForm }) {
  const groups = useMemo(() => groupsIn(app), [app]);
  const fields = useMemo(() => groups.flatMap((group) => group.fields), [groups]);
  const id = `app:${token}`;
  const form = useForm(id, fields);
  const known = useAppKnown(token, form.values);
  const read = useCallback((run: Run) => host.appResults(token, run.id), [token]);
  return (
    <UnderMask.Provider value={(place) => underMaskOf(app, place, form.now())}>
      <Making
        id={id}
        groups={groups}
        form={form}
        known={known}
        ask={(values) => host.runApp(token, values)}
        outcome={(run, again) => (
          <Outcome
            runId={run}
            graph={NO_GRAPH}
            titleOf={() => ""}
            texts={{ failed: t("simple.app_failed"), noResults: t("simple.app_no_results") }}
            read={read}
            onAgain={again}
          />
        )}
      />
    </UnderMask.Provider>
  );
}

/** In the page's words, and with limits to count with. */
function groupsIn({ groups }: AppForm) {
  return groups.map(({ title, fields }) => ({
    title,
    fields: fields.map((field) => ({
      ...field,
      min: limitOf(field.min),
      max: limitOf(field.max),
      help: worded(field.help),
    })),
  }));
}
