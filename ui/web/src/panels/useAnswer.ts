import { useEffect, useRef, useState } from "react";
import { toFile } from "../graph/file/workflowFile";
import { useEditor } from "../store/editor";
import type { GraphFile } from "../types";
import { Newest } from "./newest";

const DELAY_MS = 400;

interface Answer<T> {
  value: T | null;
  error: string;
  isLoading: boolean;
}

/** The server's answer about the workflow, asked anew shortly after a change; moving nodes is none. The newest question
 * wins: the one before is ended, and what it may still be answered is not heard. */
export function useAnswer<T>(ask: (graph: GraphFile, signal: AbortSignal) => Promise<T>, about = ""): Answer<T> {
  const graph = useEditor((state) => state.whole);
  const [answer, setAnswer] = useState<Answer<T>>({ value: null, error: "", isLoading: true });
  const asked = useRef("");
  const newest = useRef(new Newest<T>()).current;
  const latest = useRef(ask);
  latest.current = ask;
  useEffect(() => {
    const timer = setTimeout(() => {
      const { layout: _, ...file } = toFile(graph);
      const question = JSON.stringify([file, about]);
      if (asked.current === question) return;
      asked.current = question;
      setAnswer((last) => ({ ...last, isLoading: true }));
      newest.ask(
        (signal) => latest.current(file, signal),
        (told) => {
          if ("error" in told) asked.current = ""; // the next change asks again, whatever it changes
          setAnswer((last) => ({ ...last, error: "", ...told, isLoading: false }));
        },
      );
    }, DELAY_MS);
    return () => clearTimeout(timer);
  }, [graph, about, newest]);
  useEffect(() => () => newest.end(), [newest]);
  return answer;
}
