import { useEffect, useState } from "react";
import { host, sentence } from "../../host";
import type { Template, TemplateNeeds } from "../../types";

interface Templates {
  /** null while they are read. */
  templates: readonly Template[] | null;
  /** Which of them run here; empty until it is known. */
  needs: readonly TemplateNeeds[];
  error: string;
}

/** The workflows to begin with, and what they need. */
export function useTemplates(): Templates {
  const [templates, setTemplates] = useState<readonly Template[] | null>(null);
  const [needs, setNeeds] = useState<readonly TemplateNeeds[]>([]);
  const [error, setError] = useState("");
  useEffect(() => {
    host.templates().then(setTemplates, (cause: unknown) => setError(sentence(cause)));
    host.templatesNeeds().then(setNeeds, () => undefined); // the list is of use without
  }, []);
  return { templates, needs, error };
}
