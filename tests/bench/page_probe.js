/** Runs in the page before anything else: what `page.py` wants to know of it. */
(() => {
  const LATE_MS = 50;
  const probe = {
    interactive: null,
    readable: null,
    frames: [],
    latencies: [],
    messages: [],
  };
  window.probe = probe;

  /** The page draws inside open shadow roots. */
  const all = (selector, root = document) => {
    const found = [...root.querySelectorAll(selector)];
    for (const host of root.querySelectorAll(".loom-host, .loom-view *")) {
      if (host.shadowRoot) found.push(...host.shadowRoot.querySelectorAll(selector));
    }
    return found;
  };

  let last = performance.now();
  const onFrame = () => {
    const now = performance.now();
    probe.frames.push(now - last);
    last = now;
    requestAnimationFrame(onFrame);
  };
  requestAnimationFrame(onFrame);

  /** Interactive is when so many nodes are on the canvas and three frames in a row came in time. */
  probe.waitFor = (count) => {
    let inTime = 0;
    let before = performance.now();
    const look = () => {
      const now = performance.now();
      inTime = now - before < LATE_MS ? inTime + 1 : 0;
      before = now;
      const drawn = all('[data-testid="canvas"]').length > 0 && drawnNodes() >= count;
      if (!drawn) inTime = 0;
      if (inTime >= 3) probe.interactive = now;
      else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  };

  /** Readable is when the title of a node in the window has 11 pixels or more on the screen. */
  probe.waitForText = () => {
    const isRead = (title) => {
      const node = title.closest('[data-testid^="node-"]');
      const [box, whole] = [title.getBoundingClientRect(), node.getBoundingClientRect()];
      const scale = whole.width / node.offsetWidth;
      const isIn = box.width > 0 && box.top >= 0 && box.left >= 0 && box.bottom <= innerHeight && box.right <= innerWidth;
      const isShown = title.checkVisibility({ visibilityProperty: true, opacityProperty: true });
      return isIn && isShown && scale * parseFloat(getComputedStyle(title).fontSize) >= 11;
    };
    if (all('[data-testid^="node-"] .ll-node-title').some(isRead)) probe.readable = performance.now();
    else requestAnimationFrame(probe.waitForText);
  };

  /** Nodes far outside the window need not be in the document: those of the minimap count too. */
  const drawnNodes = () =>
    Math.max(all('[data-testid^="node-"]').length, all(".react-flow__minimap-node").length);

  const afterPaint = (then) => {
    const channel = new MessageChannel();
    channel.port1.onmessage = then;
    requestAnimationFrame(() => channel.port2.postMessage(null));
  };

  let watched = "";
  const pending = [];
  /** From now on, time from the event to the card of the node `name`. */
  probe.watch = (name) => {
    watched = name;
    probe.messages.length = 0;
  };
  const onMessage = ({ data }) => {
    const message = JSON.parse(data);
    probe.messages.push(performance.now());
    if (!watched) return;
    for (const run of Object.values(message.runs)) {
      const done = run.nodes?.[watched]?.done;
      if (done) pending.push({ done, at: message.t });
    }
    afterPaint(settle);
  };
  const settle = () => {
    const bar = all(`[data-testid="node-${watched}"] [role="progressbar"]`)[0];
    const shown = Number(bar?.getAttribute("aria-valuenow") ?? -1);
    while (pending.length > 0 && pending[0].done <= shown) {
      const { done, at } = pending.shift();
      // A step that a newer one overtook was never on the screen.
      if (done === shown) probe.latencies.push(Date.now() - at);
    }
    if (pending.length > 0) afterPaint(settle);
  };
  const Socket = window.WebSocket;
  window.WebSocket = class extends Socket {
    constructor(...args) {
      super(...args);
      this.addEventListener("message", onMessage);
    }
  };

  let gap = 0;
  /** From now on, how long the entry of a run stays as it is. */
  probe.watchRun = (id) => {
    let shown = "";
    let since = performance.now();
    const look = () => {
      const text = all(`[data-testid="run-${id}"]`)[0]?.textContent ?? "";
      const now = performance.now();
      gap = Math.max(gap, now - since);
      if (text !== shown) {
        shown = text;
        since = now;
      }
      requestAnimationFrame(look);
    };
    look();
  };
  probe.longestGap = () => gap;

  /** How long the server takes to answer a request of this tab, ms. */
  probe.ask = async () => {
    const start = performance.now();
    await fetch(new URL("loom/me", document.baseURI), { cache: "no-store" });
    return performance.now() - start;
  };
})();
