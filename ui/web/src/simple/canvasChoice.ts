/** The workflow that is on the canvas, as one that the form can be made from: it follows what is edited there. */

import { useRef } from "react";
import { specFor } from "../graph/catalog";
import { isEmpty, toFile } from "../graph/file/workflowFile";
import { own } from "../graph/record";
import { isLink, isParamRef } from "../graph/values";
import { useEditor } from "../store/editor";
import { usePage } from "../store/page";
import type { Catalog, EditorGraph, InputSpec } from "../types";
import type { Choice } from "./useChoices";

/** Prompts and seeds: what almost every form has. */
const OFFERED = ["multiline", "seed"];
const MOST = 6;

/** null where nothing is on the canvas. While the form is out of sight it is left as it was. */
export function useCanvasChoice(): Choice | null {
  const isShown = usePage(({ view }) => view === "simple");
  const graph = useEditor((state) => (isShown ? state.whole : null));
  const draft = useEditor(({ draftKey }) => draftKey);
  const last = useRef<{ graph: EditorGraph; choice: Choice } | null>(null);
  if (graph && graph !== last.current?.graph) last.current = { graph, choice: choiceOf(graph, draft) };
  return last.current && !isEmpty(last.current.graph) ? last.current.choice : null;
}

export function choiceOf(graph: EditorGraph, draft: string): Choice {
  const { name, description } = graph;
  const file = toFile(graph);
  return { key: `canvas:${draft}`, name, description, folder: "", workflow: null, template: null, canvas: file };
}

export interface Offer {
  node: string;
  spec: InputSpec;
}

/** Inputs of the workflow that the form could have and has not: its prompts and seeds. */
export function offersOf(graph: EditorGraph, catalog: Catalog): Offer[] {
  const all = Object.entries(graph.nodes).flatMap(([name, node]) =>
    (specFor(graph, catalog, node)?.inputs ?? [])
      .filter(({ name: socket, widget, advanced }) => {
        const held = own(node.inputs, socket);
        if (own(node.each ?? {}, socket) !== undefined) return false;
        return OFFERED.includes(widget) && !advanced && !isLink(held) && !isParamRef(held);
      })
      .map((spec) => ({ node: name, spec })),
  );
  return all.sort((a, b) => OFFERED.indexOf(a.spec.widget) - OFFERED.indexOf(b.spec.widget)).slice(0, MOST);
}
