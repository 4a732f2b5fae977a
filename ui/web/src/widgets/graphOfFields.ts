import { createContext } from "react";
import { editorStore } from "../store/editor";
import type { EditorGraph } from "../types";

/** The workflow that fields belong to, with their values as they are now: the canvas's, or a form's. */
export const GraphOfFields = createContext<() => EditorGraph>(() => editorStore.getState().graph);
