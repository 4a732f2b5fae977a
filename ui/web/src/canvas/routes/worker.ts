/** The router in a worker of its own: it never holds up the page. */

import type { Answered, Asked } from "./geometry";
import { route } from "./route";

/** A worker's own side; the types of the page know only the other one. */
interface Worker {
  onmessage: ((event: MessageEvent<Asked>) => void) | null;
  postMessage: (answer: Answered) => void;
}

const worker = globalThis as unknown as Worker;

worker.onmessage = ({ data: { revision, boxes, wires } }) => {
  worker.postMessage({ revision, paths: route(boxes, wires) });
};
