import { useEffect } from "react";
import { host } from "../../host";
import { editorStore, setMeant, setProblems, useEditor } from "../../store/editor";
import { useAnswer } from "../useAnswer";

/** Keeps problems, and what stand-ins mean, up to date with the workflow; the empty one has none. One that is opened
 * again as it was is asked about anew, because the editor has forgotten what it was told. */
export function useCheck(): void {
  const opened = useEditor((state) => state.opened);
  const { value } = useAnswer(
    (graph, signal) =>
      Object.keys(graph.nodes).length > 0
        ? host.check(graph, signal)
        : Promise.resolve({ problems: [], values: {}, sizes: {} }),
    String(opened),
  );
  useEffect(() => {
    const { problems } = editorStore.getState();
    if (value) setMeant(value.values, value.sizes);
    if (value && (value.problems.length > 0 || problems.length > 0)) setProblems(value.problems);
  }, [value]);
}
