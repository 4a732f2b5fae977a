import { useEffect, useRef, type KeyboardEvent, type MouseEvent } from "react";
import { t } from "../../i18n";
import { IconButton } from "../../parts/IconButton";
import { Icon } from "../../parts/icons";
import { MenuButton, type MenuItem } from "../../parts/overlays/Menu";
import { goToTab } from "../../store/drafts";
import { useEditor } from "../../store/editor";
import { useRun } from "../../store/live";
import { isOver } from "../../store/liveState";
import { moveTab, useTabs, type Tab } from "../../store/tabs";
import { keysText } from "../pageShortcuts";
import { useIsNarrow } from "../useIsNarrow";
import { newWorkflow } from "./fileActions";
import { close } from "./tabActions";

/** So many letters at the end of a name are shown always: names of one family differ there. */
const NAME_END = 6;
const NEAREST = { block: "nearest", inline: "nearest" } as const;

/** The workflows that are open, as soon as there are two. */
export function TabBar() {
  const tabs = useTabs();
  const isNarrow = useIsNarrow();
  const active = useEditor((state) => state.draftKey);
  const dragged = useRef<string | null>(null);
  const list = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = list.current;
    if (!element) return;
    const follow = () => element.querySelector("[aria-selected=true]")?.scrollIntoView(NEAREST);
    follow();
    const watcher = new ResizeObserver(follow);
    watcher.observe(element);
    return () => watcher.disconnect();
  }, [active, tabs.length, isNarrow]);
  if (tabs.length < 2 || isNarrow) return null;
  const onKeyDown = (event: KeyboardEvent) => {
    const at = tabs.findIndex((tab) => tab.key === active);
    const steps: Record<string, number> = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 };
    const next = tabs.at((steps[event.key] ?? at) % tabs.length);
    if (event.key === "Delete") void close(active);
    else if (steps[event.key] !== undefined && next) {
      void goToTab(next.key).then(() => list.current?.querySelector<HTMLElement>("[aria-selected=true]")?.focus());
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div className="ll-tab-bar">
      <div
        ref={list}
        role="tablist"
        aria-label={t("panels.open_workflows")}
        className="ll-tab-bar-list"
        onKeyDown={onKeyDown}
      >
        {tabs.map((tab, index) => (
          <OneTab
            key={tab.key}
            tab={tab}
            isActive={tab.key === active}
            onPress={() => {
              dragged.current = tab.key;
              window.addEventListener("pointerup", () => (dragged.current = null), { once: true });
            }}
            onPass={() => dragged.current && moveTab(dragged.current, index)}
          />
        ))}
      </div>
      <MenuButton icon="chevron-down" label={t("panels.all_tabs")} items={itemsOf(tabs, active)} />
      <IconButton
        icon="plus"
        size={16}
        label={`${t("panels.new")} (${keysText("Alt+N")})`}
        onClick={() => void newWorkflow()}
      />
    </div>
  );
}

interface OneTabProps {
  tab: Tab;
  isActive: boolean;
  onPress: () => void;
  onPass: () => void;
}

function OneTab({ tab, isActive, onPress, onPass }: OneTabProps) {
  const run = useRun(tab.watched);
  const isBusy = run !== null && !isOver(run.state);
  const onAuxClick = (event: MouseEvent) => {
    if (event.button !== 1) return;
    event.preventDefault();
    void close(tab.key);
  };
  const state = [tab.isDirty ? t("panels.dirty") : "", isBusy ? t("panels.tab_running") : ""].filter(Boolean);
  return (
    <button
      type="button"
      role="tab"
      aria-selected={isActive}
      aria-label={[nameOf(tab), ...state].join(", ")}
      aria-keyshortcuts="Delete"
      tabIndex={isActive ? 0 : -1}
      className="ll-tab-of-workflow"
      title={[nameOf(tab), ...state].join("\n")}
      onClick={() => void goToTab(tab.key)}
      onAuxClick={onAuxClick}
      onPointerDown={onPress}
      onPointerEnter={(event) => event.buttons === 1 && onPass()}
    >
      {isBusy && <i className="ll-tab-busy" />}
      <span className="ll-tab-name">
        <span>{nameOf(tab).slice(0, -NAME_END)}</span>
        <span>{nameOf(tab).slice(-NAME_END)}</span>
      </span>
      <span
        className={tab.isDirty ? "ll-tab-close ll-tab-dirty" : "ll-tab-close"}
        onPointerDown={(event) => event.stopPropagation()}
        onClick={(event) => {
          event.stopPropagation();
          void close(tab.key);
        }}
      >
        <Icon name="close" size={13} />
      </span>
    </button>
  );
}

/** The same on a phone, as a menu beside the name. */
export function TabMenu() {
  const tabs = useTabs();
  const isNarrow = useIsNarrow();
  const active = useEditor((state) => state.draftKey);
  if (tabs.length < 2 || !isNarrow) return null;
  const items: MenuItem[] = [
    ...itemsOf(tabs, active),
    "-",
    { label: t("panels.close"), icon: "close", onSelect: () => void close() },
  ];
  return <MenuButton icon="queue" label={t("panels.open_workflows")} items={items} />;
}

function itemsOf(tabs: readonly Tab[], active: string): MenuItem[] {
  return tabs.map((tab) => ({
    label: tab.isDirty ? `${nameOf(tab)} •` : nameOf(tab),
    icon: tab.key === active ? "check" : undefined,
    onSelect: () => void goToTab(tab.key),
  }));
}

function nameOf({ name }: Tab): string {
  return name || t("panels.untitled");
}
