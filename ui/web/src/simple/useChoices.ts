import { useEffect, useMemo, useState } from "react";
import { host, sentence } from "../host";
import { useLive } from "../store/live";
import type { GraphFile, Template, Workflow } from "../types";
import { worded } from "../worded";

/** A workflow that the form can be made from. */
export interface Choice {
  /** "workflow:ID" or "template:ID". */
  key: string;
  name: string;
  /** Of a workflow of the library its beginning. */
  description: string;
  folder: string;
  /** Of the library; null for a template. */
  workflow: Workflow | null;
  /** null for a workflow of the library. */
  template: Template | null;
  /** What is on the canvas, where it is that. */
  canvas?: GraphFile;
}

interface Choices {
  /** Own workflows, newest first, then the templates; null until they are read. */
  choices: readonly Choice[] | null;
  error: string;
}

/** All workflows to choose from; read anew when the library changes. */
export function useChoices(): Choices {
  const library = useLive((state) => state.library);
  const [templates, setTemplates] = useState<readonly Template[] | null>(null);
  const [workflows, setWorkflows] = useState<readonly Workflow[] | null>(null);
  const [error, setError] = useState("");
  const refuse = (reason: unknown) => setError(sentence(reason));
  useEffect(() => {
    host.templates().then(setTemplates, refuse);
  }, []);
  useEffect(() => {
    host.workflows().then((found) => {
      setWorkflows(found);
      setError("");
    }, refuse);
  }, [library]);
  const choices = useMemo(
    () => templates && workflows && [...[...workflows].sort(newestFirst).map(ofLibrary), ...templates.map(ofTemplate)],
    [templates, workflows],
  );
  return { choices, error: choices ? "" : error };
}

function newestFirst(a: Workflow, b: Workflow): number {
  return b.updated - a.updated;
}

function ofLibrary(workflow: Workflow): Choice {
  const { id, name, summary, folder } = workflow;
  return { key: `workflow:${id}`, name, description: summary, folder, workflow, template: null };
}

function ofTemplate(template: Template): Choice {
  const { id, name, description } = template;
  return { key: `template:${id}`, name, description: worded(description), folder: "", workflow: null, template };
}
