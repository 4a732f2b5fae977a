/** Runs in the page: opens one workflow after the other and measures what the canvas shows. */
(() => {
  const TOUCH = 1;
  const SOCKET_REACH = 5;
  const STEP = 5;
  const MARGIN = 40;
  const STILL_FRAMES = 4;
  /** What the check tells of a value is shown when one looks there, and the title alone from afar. */
  const WHEN_LOOKED_AT =
    "[role=alert], .ll-far-title, .ll-field-compact > :is(.ll-field-problem, .ll-field-meant)";
  const LIMIT_MS = 20000;

  const hosts = () => [...document.querySelectorAll(".loom-host")];
  const canvas = () => {
    for (const host of hosts()) {
      const found = host.shadowRoot?.querySelector('[data-testid="canvas"]');
      if (found) return found;
    }
    return null;
  };
  const all = (selector) => [...canvas().querySelectorAll(selector)];
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
  const zoom = () => Number(/scale\(([\d.]+)\)/.exec(canvas().querySelector(".react-flow__viewport").style.transform)[1]);

  /** What moves when anything on the canvas does. */
  const shape = () =>
    [canvas().querySelector(".react-flow__viewport").style.transform, canvas().className]
      .concat(all(".react-flow__node").map((node) => `${node.dataset.id}${node.style.transform}${node.offsetHeight}`))
      .concat(all(".react-flow__edge-path").map((path) => path.getAttribute("d")))
      .join();

  const still = async (isReady = () => true) => {
    const end = performance.now() + LIMIT_MS;
    for (let last = "", same = 0; same < STILL_FRAMES; ) {
      await frame();
      const now = shape();
      same = now === last && !canvas().matches(".ll-wires-waiting, [data-routing]") && isReady() ? same + 1 : 0;
      last = now;
      if (performance.now() > end) throw new Error("the canvas does not come to rest");
    }
  };

  let numLinks = 0;
  const linksOf = ({ nodes }) =>
    Object.values(nodes)
      .flatMap(({ inputs = {} }) => Object.values(inputs))
      .filter((value) => typeof value?.from === "string" && value.from.split(".")[0] in nodes).length;

  const open = async (graph) => {
    numLinks = linksOf(graph);
    const transfer = new DataTransfer();
    transfer.items.add(new File([JSON.stringify(graph)], "graph.json", { type: "application/json" }));
    for (const type of ["dragenter", "dragover", "drop"])
      canvas().dispatchEvent(new DragEvent(type, { dataTransfer: transfer, bubbles: true, composed: true }));
    const names = new Set(Object.keys(graph.nodes).map((name) => `n:${name}`));
    const isThere = () => {
      const shown = all(".react-flow__node-card").map((node) => node.dataset.id);
      return shown.length > 0 && shown.every((id) => names.has(id)) && (names.size > 60 || shown.length === names.size);
    };
    const end = performance.now() + LIMIT_MS;
    while (!isThere() || canvas().closest("[data-view]")?.querySelector("dialog[open]")) {
      await frame();
      if (performance.now() > end) throw new Error(`${graph.name} was not opened`);
    }
    await new Promise((resolve) => setTimeout(resolve, 90));
    await still();
  };

  const arrange = async () => {
    all('[role="toolbar"] button').find((button) => button.getAttribute("aria-label") === "Arrange").click();
    await new Promise((resolve) => setTimeout(resolve, 260));
    await still();
  };

  /** Places in the canvas' own pixels, with what a node's parts reach beyond it. */
  const boxes = () =>
    all(".react-flow__node").flatMap((node) => {
      if (!/node-(card|note)/.test(node.className)) return [];
      const [, x, y] = /translate\(([-\d.]+)px, ?([-\d.]+)px\)/.exec(node.style.transform).map(Number);
      const parts = [...node.querySelectorAll(".ll-node-body, .ll-node-status, .ll-made, .ll-mades")];
      const right = x + Math.max(node.offsetWidth, ...parts.map((part) => part.offsetLeft + part.offsetWidth));
      const bottom = y + Math.max(node.offsetHeight, ...parts.map((part) => part.offsetTop + part.offsetHeight));
      return [{ id: node.dataset.id, left: x, top: y, right, bottom }];
    });

  const sockets = (known) =>
    all(".react-flow__node-card .react-flow__handle").map((handle) => {
      const node = handle.closest(".react-flow__node");
      const { left, top } = known.get(node.dataset.id);
      const [outer, inner] = [node.getBoundingClientRect(), handle.getBoundingClientRect()];
      const scale = zoom();
      return {
        name: `${node.dataset.id.slice(2)}.${handle.dataset.handleid}${handle.classList.contains("source") ? ">" : ""}`,
        x: left + (inner.left + inner.width / 2 - outer.left) / scale,
        y: top + (inner.top + inner.height / 2 - outer.top) / scale,
      };
    });

  const isShown = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true });

  /** The smallest text of nodes and comments on the screen, and what of it is not shown. */
  const texts = () => {
    let [smallest, where] = [Infinity, ""];
    const hidden = [];
    const scale = zoom();
    for (const element of all(".react-flow__node *")) {
      const isField = /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName) && !/^(range|file|checkbox)$/.test(element.type);
      const own = [...element.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE);
      const text = own.map((node) => node.textContent.trim()).join("");
      if (!(isField || text) || element.closest(".ll-hidden, option, select > *")) continue;
      if (!isShown(element)) {
        if (element.closest(WHEN_LOOKED_AT) === null) hidden.push(text || element.tagName);
        continue;
      }
      const size = parseFloat(getComputedStyle(element).fontSize) * scale;
      if (size < smallest) [smallest, where] = [size, `${text || element.tagName} (${element.className})`];
    }
    return { smallest, where, hidden };
  };

  /** The nodes of the first row that are not whole in view, but for those that are larger than the view. */
  const firstRow = (known) => {
    const sorted = [...known].sort((a, b) => a.top - b.top);
    const row = [];
    let bottom = -Infinity;
    for (const box of sorted) {
      if (row.length && box.top >= bottom) break;
      row.push(box.id);
      bottom = Math.max(bottom, box.bottom);
    }
    const view = canvas().getBoundingClientRect();
    return row.filter((id) => {
      const seen = canvas().querySelector(`[data-id="${CSS.escape(id)}"]`).getBoundingClientRect();
      const isIn = (low, value, high) => value >= low - TOUCH && value <= high + TOUCH;
      if (seen.width > view.width - MARGIN || seen.height > view.height - MARGIN) return false;
      return !(
        isIn(view.left, seen.left, view.right) &&
        isIn(view.left, seen.right, view.right) &&
        isIn(view.top, seen.top, view.bottom) &&
        isIn(view.top, seen.bottom, view.bottom)
      );
    });
  };

  const measure = () => {
    const known = boxes();
    const byId = new Map(known.map((box) => [box.id, box]));
    const ends = sockets(byId);
    const overlaps = [];
    known.forEach((a, index) => {
      for (const b of known.slice(0, index))
        if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
          overlaps.push(`${a.id} on ${b.id}`);
    });
    const behind = [];
    const foreign = [];
    const wires = all(".react-flow__edge").map((edge) => {
      const path = edge.querySelector(".react-flow__edge-path");
      const [x, y] = path.getAttribute("d").slice(1).split(/[ ,A-Z]/).map(Number);
      return { id: edge.dataset.id, path, start: `${x},${y}` };
    });
    const starts = new Map(wires.map(({ start }) => [start, new Set()]));
    const at = (x, y) => ends.filter((end) => Math.hypot(end.x - x, end.y - y) < 8);
    for (const { path, start } of wires) {
      const length = path.getTotalLength();
      const [first, last] = [path.getPointAtLength(0), path.getPointAtLength(length)];
      for (const end of [...at(first.x, first.y), ...at(last.x, last.y)]) starts.get(start).add(end.name);
    }
    for (const { id, path, start } of wires) {
      const length = path.getTotalLength();
      for (let along = 0; along <= length; along += STEP) {
        const { x, y } = path.getPointAtLength(along);
        const over = known.find(
          (box) => x > box.left + TOUCH && x < box.right - TOUCH && y > box.top + TOUCH && y < box.bottom - TOUCH,
        );
        if (over) {
          behind.push(`${id} behind ${over.id}`);
          break;
        }
        const met = ends.find((end) => Math.hypot(end.x - x, end.y - y) < SOCKET_REACH && !starts.get(start).has(end.name));
        if (met) {
          foreign.push(`${id} at ${met.name}`);
          break;
        }
      }
    }
    return {
      zoom: zoom(),
      num_nodes: known.length,
      num_wires: wires.length,
      num_links: numLinks,
      ...texts(),
      overlaps,
      behind,
      foreign,
      cut: firstRow(known),
      boxes: Object.fromEntries(known.map(({ id, left, top, right, bottom }) => [id, [left, top, right - left, bottom - top]])),
    };
  };

  let moved = new Set();
  /** From now on, and no longer as before, note every node that moves or changes its size. */
  const follow = () => {
    const found = new Set();
    moved = found;
    const before = new Map(boxes().map((box) => [box.id, JSON.stringify(box)]));
    const look = () => {
      if (moved !== found) return;
      for (const box of boxes()) if (JSON.stringify(box) !== before.get(box.id)) found.add(box.id);
      requestAnimationFrame(look);
    };
    look();
  };

  /** Whether a run has begun and no node waits any more. */
  const isOver = () => {
    const states = all(".ll-node").map(({ dataset }) => dataset.status);
    return states.some((state) => /^(done|cached|failed)$/.test(state)) && !states.some((state) => /^(waiting|running)$/.test(state));
  };

  window.geometry = { open, arrange, still, measure, boxes, follow, moved: () => [...moved], isOver };
})();
