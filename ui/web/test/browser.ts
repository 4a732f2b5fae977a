/** The few parts of a browser that the stores use, for tests on Node. */

type Handler = (request: Request) => Response | Promise<Response>;

class Storage {
  [key: string]: unknown;

  getItem(key: string): string | null {
    return Object.hasOwn(this, key) ? String(this[key]) : null;
  }

  setItem(key: string, value: string): void {
    this[key] = value;
  }

  removeItem(key: string): void {
    delete this[key];
  }
}

class Target extends EventTarget {
  visibilityState = "visible";
  baseURI = "http://host/prefix/";
}

export interface Browser {
  /** Every request that was made, in order. */
  requests: Request[];
  /** Answers them from now on. */
  answer: (handler: Handler) => void;
  document: Target;
  window: EventTarget;
}

const LONG_MS = 1000;
const begin = globalThis.setTimeout;
/** What the page does so much later, such as taking a notice away, keeps no test from ending. */
globalThis.setTimeout = ((act: () => void, ms?: number) => {
  const timer = begin(act, ms);
  if (ms !== undefined && ms > LONG_MS) timer.unref();
  return timer;
}) as typeof setTimeout;

/** A fresh browser in the global scope. */
export function newBrowser(): Browser {
  const [document, window] = [new Target(), new EventTarget()];
  const requests: Request[] = [];
  let handler: Handler = () => Response.json({});
  const fetch = async (url: string, options: RequestInit): Promise<Response> => {
    const request = new Request(url, { ...options, ...(options.body ? { duplex: "half" } : {}) } as RequestInit);
    requests.push(request.clone());
    return handler(request);
  };
  const globals = { document, window, fetch, localStorage: new Storage(), sessionStorage: new Storage() };
  for (const [name, value] of Object.entries(globals)) {
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  }
  Object.defineProperty(globalThis, "navigator", { value: { languages: ["en"] }, configurable: true, writable: true });
  return { requests, answer: (next) => (handler = next), document, window };
}
