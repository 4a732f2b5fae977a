import { useEffect, useMemo } from "react";
import { newSeedsOf } from "../graph/edits/seeds";
import { fromFile } from "../graph/file/workflowFile";
import { t } from "../i18n";
import { openUnsaved } from "../panels/files/fileActions";
import { submit } from "../panels/runs/submit";
import { Button } from "../parts/Button";
import { go } from "../store/page";
import type { Catalog, EditorGraph, GraphFile, Run } from "../types";
import { ChangeOfFields, GraphOfFields } from "../widgets/graphOfFields";
import { setKept } from "../widgets/numbers/seeds";
import { fieldsOf, groupsOf, withDefaults } from "./formFields";
import { Making } from "./Making";
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
  const known = useMeant(graph, form.values);
  useEffect(() => {
    const moving = choice.canvas ? newSeedsOf(fromFile(choice.canvas)) : []; // as on the canvas
    for (const key of moving.filter((each) => each.startsWith("$"))) setKept(`#${choice.key}.${key.slice(1)}`, false);
  }, [choice.key]);
  const graphNow = () => fromFile(withDefaults(graph, form.now()));
  const change = (_: string, make: (last: EditorGraph) => EditorGraph) => {
    const before = graphNow();
    for (const [name, param] of Object.entries(make(before).params)) {
      const next = param.default;
      if (next !== undefined && next !== before.params[name]?.default) form.set(name, next, true);
    }
  };
  const openInBuild = (run: Run) => {
    go("build"); // what is not saved there is asked about there
    void openUnsaved(withDefaults(graph, { ...run.overrides, ...run.varied }), choice.name);
  };
  const titleOf = (name: string) => {
    const node = Object.hasOwn(graph.nodes, name) ? graph.nodes[name] : undefined;
    return node?.title || catalog.nodes.find(({ id }) => id === node?.type)?.title || name;
  };
  return (
    <GraphOfFields.Provider value={graphNow}>
      <ChangeOfFields.Provider value={{ change, isOfForm: true }}>
        <Making
          id={choice.key}
          groups={groupsOf(graph, fields)}
          form={form}
          known={known}
          offers={choice.canvas ? <Offers /> : null}
          ask={(values) =>
            submit({
              graph,
              overrides: values,
              workflow_id: choice.workflow?.id ?? null,
            })
          }
          outcome={(run, again) => (
            <Outcome
              runId={run}
              graph={graph}
              titleOf={titleOf}
              texts={{
                failed: t("simple.failed"),
                noResults: t("simple.no_results"),
              }}
              onAgain={again}
              more={(shown) => (
                <Button icon="build" onClick={() => openInBuild(shown)}>
                  {t("simple.open_in_build")}
                </Button>
              )}
            />
          )}
        />
      </ChangeOfFields.Provider>
    </GraphOfFields.Provider>
  );
}
