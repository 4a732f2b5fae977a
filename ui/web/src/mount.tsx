/** The one file that knows Gradio: draws the views, and puts each into the element that a `LoomView` component gives. */

import type { ComponentType } from "react";
import { createRoot } from "react-dom/client";
import { Frame } from "./frame/Frame";
import { lazily } from "./frame/lazily";
import { address, asset } from "./http";
import { t } from "./i18n";
import { openedApp } from "./store/links";
import { pageStore, setTheme, type View } from "./store/page";
import { settingsStore } from "./store/settings";
import { startOnce } from "./store/start";
import { Build } from "./views/Build";

/** What is behind the other tabs is read after the canvas. */
const Gallery = lazily(async () => (await import("./views/Gallery")).Gallery);
const Simple = lazily(async () => (await import("./views/Simple")).Simple);
const Models = lazily(async () => (await import("./views/Models")).Models);
const App = lazily(async () => (await import("./views/App")).App);
const VIEWS: Record<View, ComponentType> = { build: Build, simple: Simple, gallery: Gallery, models: Models };
const API_PATH = "loom";

/** Where the page begins: it is drawn before Gradio is up. */
const FIRST: View = "build";
/** The canvas rests when the browser has been idle so many times since it was drawn, each waited for so long at most. */
const IDLE_TIMES = 3;
const LONGEST_IDLE_MS = 300;
/** The row of Gradio's tabs, as `ui/app.py` makes it. */
const TABS_PX = 40;
/** Over what Gradio shows while it begins, which would take the presses that are meant for the canvas. */
const OVER_LOADER = "100";

interface MountOptions {
  element: HTMLElement;
  props: { view: View };
  /** Sends an event to Gradio: "go" selects a tab. */
  trigger: (event: string, data?: unknown) => void;
}

type Dispose = () => void;

/** Each view's element, drawn once: Gradio's tab is only where it stands. */
const drawn = new Map<View, HTMLElement>();
const mounted = new Map<View, Dispose>();

/** Ask for what every view needs, and draw the first one where its tab will be. */
export function begin(version: string): void {
  startOnce(API_PATH, version);
  const unsubscribe = pageStore.subscribe(({ startup, view }) => {
    if (startup.state === "loading") return;
    unsubscribe();
    whenIdle(view === FIRST ? IDLE_TIMES : 0, letGradioBegin);
  });
  if (document.body) drawFirst();
  else document.addEventListener("DOMContentLoaded", drawFirst, { once: true });
}

/** `ui/access/policy.py` holds it back until then: it would take the time in which the canvas is drawn. */
function letGradioBegin(): void {
  window.dispatchEvent(new Event("loom-rests"));
}

function whenIdle(times: number, then: () => void): void {
  if (times === 0) return then();
  const next = (): void => whenIdle(times - 1, then);
  // Safari has none
  if ("requestIdleCallback" in window) requestIdleCallback(next, { timeout: LONGEST_IDLE_MS });
  else setTimeout(next, LONGEST_IDLE_MS);
}

function drawFirst(): void {
  followTheme();
  if (openedApp()) return drawAlone(newHost(App));
  if (drawn.has(FIRST)) return;
  const host = hostOf(FIRST);
  Object.assign(host.style, { position: "fixed", inset: `${TABS_PX}px 0 0`, height: "auto", zIndex: OVER_LOADER });
  document.body.append(host);
}

/** An app is the whole page: of Gradio nothing is seen, or found by keys and screen readers. */
function drawAlone(host: HTMLElement): void {
  const rest = document.createElement("style");
  rest.textContent = "body > :not(.loom-alone) { display: none !important; }";
  host.classList.add("loom-alone");
  Object.assign(host.style, { position: "fixed", inset: "0" });
  document.head.append(rest);
  document.body.append(host);
}

/** Put a view into the element that Gradio gives; again where it gives a new one. */
export function mount({ element, props: { view }, trigger }: MountOptions): void {
  if (openedApp()) return;
  followTheme();
  nameTabs();
  mounted.get(view)?.();
  const host = hostOf(view);
  move(host, element);
  Object.assign(host.style, { position: "", inset: "", height: "100%", zIndex: "" });
  const ends = [followTabs(view, element, trigger), fillWindow(element)];
  mounted.set(view, () => ends.forEach((end) => end()));
}

/** With its focus and all that is under way in it, where the browser knows how. */
function move(host: HTMLElement, element: HTMLElement): void {
  if (host.isConnected && element.isConnected && "moveBefore" in element) element.moveBefore(host, null);
  else element.append(host);
}

function hostOf(view: View): HTMLElement {
  const known = drawn.get(view);
  if (known) return known;
  const host = newHost(VIEWS[view]);
  drawn.set(view, host);
  return host;
}

function newHost(Shown: ComponentType): HTMLElement {
  const host = document.createElement("div");
  host.className = "loom-host";
  host.style.minHeight = "inherit";
  const shadow = host.attachShadow({ mode: "open" });
  const box = document.createElement("div");
  box.className = "ll-box";
  shadow.append(box);
  void draw(Shown, shadow, box);
  return host;
}

/** Drawn once its styles are there, or could not be had. */
async function draw(Shown: ComponentType, shadow: ShadowRoot, box: HTMLElement): Promise<void> {
  await new Promise<unknown>((resolve) => {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.onload = link.onerror = resolve;
    link.href = address(asset("loom.css"));
    shadow.prepend(link);
  });
  createRoot(box).render(
    <Frame>
      <Shown />
    </Frame>,
  );
}

/** A tab that people select shows its view; a view that the page goes to selects its tab. */
function followTabs(view: View, element: HTMLElement, trigger: MountOptions["trigger"]): Dispose {
  let isShown = false;
  let isFirst = view === FIRST;
  const watcher = new IntersectionObserver(([entry]) => {
    isShown = entry?.isIntersecting ?? false;
    if (!isShown) return;
    const { view: asked } = pageStore.getState();
    const isEarly = isFirst;
    isFirst = false;
    if (asked === view) return;
    if (isEarly)
      trigger("go", { view: asked }); // the page went on before Gradio was up
    else pageStore.setState({ view, payload: undefined });
  });
  watcher.observe(element);
  const unsubscribe = pageStore.subscribe((state, before) => {
    if (isShown && state.numGoes !== before.numGoes && state.view !== view) trigger("go", { view: state.view });
  });
  return () => {
    watcher.disconnect();
    unsubscribe();
  };
}

/** From its top to the end of the window: a percentage would depend on every box that Gradio puts around. */
function fillWindow(element: HTMLElement): Dispose {
  const fit = (): void => {
    const top = Math.round(element.getBoundingClientRect().top + window.scrollY);
    if (element.offsetParent) element.style.height = `calc(100dvh - ${top}px)`;
  };
  // Measured here, all that Gradio has just made would be laid out twice; the observer calls once it is.
  element.style.height = `calc(100dvh - ${TABS_PX}px)`;
  const watcher = new ResizeObserver(fit);
  watcher.observe(element);
  window.addEventListener("resize", fit);
  return () => {
    watcher.disconnect();
    window.removeEventListener("resize", fit);
  };
}

let isFollowing = false;

/** Light or dark as was chosen, else as Gradio has it: the class `dark` on the body. */
function followTheme(): void {
  if (isFollowing) return;
  isFollowing = true;
  const { classList } = document.body;
  const isSystemDark = (): boolean => matchMedia("(prefers-color-scheme: dark)").matches;
  const asked = new URL(location.href).searchParams.get("__theme"); // as Gradio reads it
  classList.toggle("dark", asked ? asked === "dark" : isSystemDark());
  const read = (): void => {
    const { theme } = settingsStore.getState();
    if (theme !== "system" && classList.contains("dark") !== (theme === "dark")) classList.toggle("dark");
    setTheme(classList.contains("dark") ? "dark" : "light");
  };
  read();
  settingsStore.subscribe(({ theme }, before) => {
    if (theme === before.theme) return;
    if (theme === "system") classList.toggle("dark", isSystemDark());
    read();
  });
  new MutationObserver(read).observe(document.body, { attributes: true, attributeFilter: ["class"] });
}

let isNaming = false;

/** The tabs in the page's language: Gradio knows the browser's only. From then on they follow it. */
function nameTabs(): void {
  for (const tab of document.querySelectorAll<HTMLElement>("[data-tab-id]")) {
    const words = [...tab.childNodes].find((node) => node instanceof Text);
    const view = tab.dataset["tabId"] ?? "";
    if (words && Object.hasOwn(VIEWS, view)) words.data = t(`core.view_${view as View}`);
  }
  if (isNaming) return;
  isNaming = true;
  pageStore.subscribe((state, before) => {
    if (state.language !== before.language) nameTabs();
  });
}
