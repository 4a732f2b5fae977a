import { createContext } from "react";
import type { Under } from "../material/mask/under";
import { edit, editorStore } from "../store/editor";
import type { EditorGraph } from "../types";

/** The workflow that fields belong to, with their values as they are now: the canvas's, or a form's. */
export const GraphOfFields = createContext<() => EditorGraph>(() => editorStore.getState().graph);

/** What lies under the mask at a place, told where the workflow is not known; null: it is looked up in the workflow. */
export const UnderMask = createContext<((place: string) => Under) | null>(null);

interface Changes {
  /** Changes it in one step; of a form only what its fields set, which are params. */
  change: (label: string, make: (graph: EditorGraph) => EditorGraph) => void;
  isOfForm: boolean;
}

/** How a field changes more of that workflow than its own value. */
export const ChangeOfFields = createContext<Changes>({
  change: (label, make) => edit(label, make),
  isOfForm: false,
});
