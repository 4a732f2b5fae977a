/** How the panels stand around the canvas (this browser remembers it), and the plan for the next run. */

import { useStore } from "zustand";
import { createStore } from "zustand/vanilla";

export type SideTab = "queue" | "plan" | "inspector" | "problems";

export interface NextPlan {
  plan: string;
  devices: string;
}

interface Kept {
  isSideOpen: boolean;
  /** rem */
  sideWidth: number;
  areLanesOpen: boolean;
}

interface PanelState extends Kept {
  tab: SideTab;
  /** For the next run only; null leaves it to the workflow. */
  nextPlan: NextPlan | null;
  /** What is being tried in the plan panel; null shows what the server would choose. */
  triedPlan: NextPlan | null;
  /** The name of a machine to plan for; "" is the server's own. */
  machine: string;
}

export const SIDE_WIDTH = { min: 16, max: 44, usual: 22 };

const KEY = "loom.panels";
/** On a phone the canvas comes first. */
const IS_ROOMY = globalThis.innerWidth > 720;
const USUAL: Kept = { isSideOpen: IS_ROOMY, sideWidth: SIDE_WIDTH.usual, areLanesOpen: IS_ROOMY };

export const panelStore = createStore<PanelState>(() => ({
  ...USUAL,
  ...remembered(),
  tab: "queue",
  nextPlan: null,
  triedPlan: null,
  machine: "",
}));

export function usePanels<T>(selector: (state: PanelState) => T): T {
  return useStore(panelStore, selector);
}

export function showTab(tab: SideTab): void {
  panelStore.setState({ tab });
  keep({ isSideOpen: true });
}

export function setSideOpen(isSideOpen: boolean): void {
  keep({ isSideOpen });
}

export function setSideWidth(width: number): void {
  keep({ sideWidth: Math.min(Math.max(width, SIDE_WIDTH.min), SIDE_WIDTH.max) });
}

export function setLanesOpen(areLanesOpen: boolean): void {
  keep({ areLanesOpen });
}

export function setNextPlan(nextPlan: NextPlan | null): void {
  panelStore.setState({ nextPlan });
}

export function tryPlan(triedPlan: NextPlan | null): void {
  panelStore.setState({ triedPlan });
}

/** What was tried for another machine may not be there. */
export function planFor(machine: string): void {
  panelStore.setState({ machine, triedPlan: null });
}

function keep(change: Partial<Kept>): void {
  panelStore.setState(change);
  const { isSideOpen, sideWidth, areLanesOpen } = panelStore.getState();
  try {
    localStorage.setItem(KEY, JSON.stringify({ isSideOpen, sideWidth, areLanesOpen }));
  } catch {
    // A browser that keeps nothing: the panels stand so for this page.
  }
}

function remembered(): Partial<Kept> {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "{}") as Record<string, unknown>;
    return {
      ...(typeof kept.isSideOpen === "boolean" ? { isSideOpen: kept.isSideOpen } : {}),
      ...(typeof kept.areLanesOpen === "boolean" ? { areLanesOpen: kept.areLanesOpen } : {}),
      ...(typeof kept.sideWidth === "number" ? { sideWidth: kept.sideWidth } : {}),
    };
  } catch {
    return {};
  }
}
