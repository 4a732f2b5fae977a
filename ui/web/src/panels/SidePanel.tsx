import { useLayoutEffect, useRef, type KeyboardEvent, type PointerEvent } from "react";
import { Inspector } from "../canvas/inspector/Inspector";
import { idsOf } from "../graph/items";
import { t } from "../i18n";
import { Tabs } from "../parts/Tabs";
import { useEditor } from "../store/editor";
import { useQueue } from "../store/live";
import { setSideOpen, setSideWidth, showTab, SIDE_WIDTH, usePanels, type SideTab } from "./panelState";
import { PlanPanel } from "./plan/PlanPanel";
import { ProblemsPanel } from "./problems/ProblemsPanel";
import { QueuePanel } from "./queue/QueuePanel";
import { useIsNarrow } from "./useIsNarrow";

const STEP = 2;

/** Queue, plan, inspector and problems beside the canvas; below it on a phone. */
export function SidePanel() {
  const { tab, isSideOpen, sideWidth } = usePanels((state) => state);
  const isNarrow = useIsNarrow();
  const numQueued = useQueue().length;
  const numProblems = useEditor((state) => state.problems.filter(({ kind }) => kind !== "unknown").length);
  const numSelected = useEditor((state) => idsOf(state.selection, "node").length);
  const aside = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    aside.current?.querySelector(".ll-tab-panel")?.scrollTo(0, 0);
  }, [tab]);
  const tabs = [
    { id: "queue", label: t("panels.tab_queue"), badge: numQueued },
    { id: "plan", label: t("panels.tab_plan") },
    { id: "inspector", label: t("panels.tab_inspector"), badge: numSelected },
    { id: "problems", label: t("panels.tab_problems"), badge: numProblems },
  ];
  if (!isSideOpen && !isNarrow) return null;
  return (
    <aside
      ref={aside}
      className={`ll-side ${isSideOpen ? "" : "ll-side-closed"}`}
      aria-label={t("panels.side")}
      style={isNarrow ? undefined : { width: `${sideWidth}rem` }}
    >
      {isNarrow ? <SheetHandle isOpen={isSideOpen} /> : <WidthHandle width={sideWidth} />}
      <Tabs label={t("panels.side")} tabs={tabs} selected={tab} onSelect={(id) => showTab(id as SideTab)}>
        {tab !== "inspector" && <h2 className="ll-hidden">{tabs.find(({ id }) => id === tab)?.label}</h2>}
        <TabPanel tab={tab} />
      </Tabs>
    </aside>
  );
}

function TabPanel({ tab }: { tab: SideTab }) {
  if (tab === "queue") return <QueuePanel />;
  if (tab === "plan") return <PlanPanel />;
  return tab === "inspector" ? <Inspector /> : <ProblemsPanel />;
}

/** On a phone the panel is a sheet: this strip folds it down to its tabs. */
function SheetHandle({ isOpen }: { isOpen: boolean }) {
  return (
    <button
      type="button"
      className="ll-sheet-handle"
      aria-expanded={isOpen}
      aria-label={t(isOpen ? "panels.hide_side" : "panels.show_side")}
      onClick={() => setSideOpen(!isOpen)}
    />
  );
}

/** The left border, to be dragged; the arrow keys move it too. */
function WidthHandle({ width }: { width: number }) {
  const start = useRef<{ x: number; width: number } | null>(null);
  const onPointerDown = (event: PointerEvent<HTMLDivElement>) => {
    event.currentTarget.setPointerCapture(event.pointerId);
    start.current = { x: event.clientX, width };
  };
  const onPointerMove = (event: PointerEvent) => {
    if (!start.current) return;
    const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
    setSideWidth(start.current.width + (start.current.x - event.clientX) / rem);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const change = { ArrowLeft: STEP, ArrowRight: -STEP }[event.key];
    if (change === undefined) return;
    event.preventDefault();
    setSideWidth(width + change);
  };
  return (
    <div
      className="ll-side-edge"
      role="separator"
      tabIndex={0}
      aria-orientation="vertical"
      aria-label={t("panels.side_width")}
      aria-valuenow={Math.round(width)}
      aria-valuemin={SIDE_WIDTH.min}
      aria-valuemax={SIDE_WIDTH.max}
      onPointerDown={onPointerDown}
      onPointerMove={onPointerMove}
      onPointerUp={() => (start.current = null)}
      onPointerCancel={() => (start.current = null)}
      onDoubleClick={() => setSideWidth(SIDE_WIDTH.usual)}
      onKeyDown={onKeyDown}
    />
  );
}
