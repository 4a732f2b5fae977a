/** The one file that knows Gradio: draws a view into the element that a `LoomView` component gives. */

import type { ComponentType } from "react";
import { createRoot } from "react-dom/client";
import { Frame } from "./frame/Frame";
import { lazily } from "./frame/lazily";
import { t } from "./i18n";
import { pageStore, setTheme, type View } from "./store/page";
import { settingsStore } from "./store/settings";
import { startOnce } from "./store/start";
import { Build } from "./views/Build";

/** What is behind the other tabs is read after the canvas. */
const Gallery = lazily(async () => (await import("./views/Gallery")).Gallery);
const Simple = lazily(async () => (await import("./views/Simple")).Simple);
const Models = lazily(async () => (await import("./views/Models")).Models);
const VIEWS: Record<View, ComponentType> = { build: Build, simple: Simple, gallery: Gallery, models: Models };
const API_PATH = "loom";

interface MountOptions {
  element: HTMLElement;
  props: { view: View };
  /** Sends an event to Gradio: "go" selects a tab. */
  trigger: (event: string, data?: unknown) => void;
  /** Address of the style sheet, with the version of the bundle. */
  styles: string;
}

type Dispose = () => void;

const mounted = new Map<View, Dispose>();

// The page's head names this file, so that all this is asked for while Gradio still starts.
startOnce(API_PATH, new URL(import.meta.url).searchParams.get("v") ?? "");

/** Draw a view; where Gradio gives it a new element, the old one is left. */
export async function mount({ element, props, trigger, styles }: MountOptions): Promise<void> {
  const { view } = props;
  const Shown = VIEWS[view];
  followTheme();
  nameTabs();
  mounted.get(view)?.();
  const shadow = element.shadowRoot ?? element.attachShadow({ mode: "open" });
  const box = document.createElement("div");
  box.className = "ll-box";
  shadow.replaceChildren(box);
  const root = createRoot(box);
  const ends = [() => root.unmount(), followTabs(view, element, trigger), fillWindow(element)];
  mounted.set(view, () => ends.forEach((end) => end()));
  await loadStyles(shadow, styles);
  root.render(
    <Frame>
      <Shown />
    </Frame>,
  );
}

/** The view is drawn once its styles are there, or could not be had. */
function loadStyles(shadow: ShadowRoot, href: string): Promise<void> {
  return new Promise((resolve) => {
    const link = document.createElement("link");
    link.rel = "stylesheet";
    link.onload = link.onerror = () => resolve();
    link.href = href;
    shadow.prepend(link);
  });
}

/** A tab that people select shows its view; a view that the page goes to selects its tab. */
function followTabs(view: View, element: HTMLElement, trigger: MountOptions["trigger"]): Dispose {
  let isShown = false;
  const watcher = new IntersectionObserver(([entry]) => {
    isShown = entry?.isIntersecting ?? false;
    if (isShown && pageStore.getState().view !== view) pageStore.setState({ view, payload: undefined });
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
  fit();
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
  const read = (): void => {
    const { theme } = settingsStore.getState();
    if (theme !== "system" && classList.contains("dark") !== (theme === "dark")) classList.toggle("dark");
    setTheme(classList.contains("dark") ? "dark" : "light");
  };
  read();
  settingsStore.subscribe(({ theme }, before) => {
    if (theme === before.theme) return;
    if (theme === "system") classList.toggle("dark", matchMedia("(prefers-color-scheme: dark)").matches);
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
