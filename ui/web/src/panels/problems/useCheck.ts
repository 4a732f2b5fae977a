import { useEffect } from "react";
import { host } from "../../host";
import { editorStore, setMeant, setProblems, setTokens, useEditor } from "../../store/editor";
import { useFetched } from "../../models/downloadsStore";
import { useAnswer } from "../useAnswer";

/** Keeps problems, what stand-ins mean and how many tokens texts are up to date with the workflow; the empty one has none. One that is opened
 * again as it was is asked about anew, because the editor has forgotten what it was told; and so is any once a model was fetched. */
export function useCheck(): void {
  const opened = useEditor((state) => state.opened);
  const about = `${opened} ${useFetched()}`;
  const { value } = useAnswer(
    (graph, signal) =>
      Object.keys(graph.nodes).length > 0
        ? host.check(graph, signal)
        : Promise.resolve({ problems: [], values: {}, sizes: {} }),
    about,
  );
  const { value: counted } = useAnswer(
    (graph, signal) =>
      Object.keys(graph.nodes).length > 0 ? host.tokens(graph, signal) : Promise.resolve({ tokens: {} }),
    about,
  );
  useEffect(() => {
    if (counted) setTokens(counted.tokens);
  }, [counted]);
  useEffect(() => {
    const { problems } = editorStore.getState();
    if (value) setMeant(value.values, value.sizes);
    if (value && (value.problems.length > 0 || problems.length > 0)) setProblems(value.problems);
  }, [value]);
}
