import { useEffect, useReducer, useRef } from "react";
import { host, urls } from "../../host";
import { Icon } from "../../parts/icons";
import type { GraphFile, Workflow } from "../../types";
import { GraphSketch } from "./GraphSketch";

const kept = new Map<string, GraphFile>();

/** What a saved workflow looks like: its newest result, else its boxes and wires, which are read once they are seen. */
export function WorkflowPicture({ workflow }: { workflow: Workflow }) {
  const { id, version, updated, has_thumb: hasThumb } = workflow;
  const key = `${id} ${version}`;
  const graph = kept.get(key);
  const box = useRef<HTMLDivElement>(null);
  const [, redraw] = useReducer((count: number) => count + 1, 0);
  useEffect(() => {
    if (hasThumb || kept.has(key)) return;
    const watcher = new IntersectionObserver(([entry]) => {
      if (!entry?.isIntersecting) return;
      watcher.disconnect();
      void host.workflow(id).then(
        (read) => {
          kept.set(key, read.graph);
          redraw();
        },
        () => undefined, // a picture is decoration; opening the workflow says what is wrong
      );
    });
    if (box.current) watcher.observe(box.current);
    return () => watcher.disconnect();
  }, [id, key, hasThumb]);
  return (
    <div className="ll-card-picture" ref={box}>
      {hasThumb ? (
        <img src={urls.workflowThumb(id, updated)} alt="" loading="lazy" />
      ) : graph ? (
        <GraphSketch file={graph} />
      ) : (
        <Icon name="build" size={32} />
      )}
    </div>
  );
}
