/** What the gallery shows: the results loaded so far, the filter, what is chosen and what is open. */
import { useStore } from "zustand";
import { createStore } from "zustand/vanilla";
import { host, sentence } from "../host";
import type { Result } from "../types";
import { EVERYTHING, withNewest, withOlder, type Filter } from "./resultPages";

export type Open =
  /** `among`: where previous and next come from; null is the list of the gallery. */
  | {
      view: "detail";
      result: Result;
      among: readonly Result[] | null;
    }
  /** What differs between a result and the workflow on the canvas. */
  | { view: "canvas"; result: Result }
  | { view: "compare"; a: Result; b: Result }
  | { view: "sweep"; batch: string };

export interface GalleryState {
  items: Result[];
  /** Whether the oldest result is loaded. */
  isEnd: boolean;
  isLoading: boolean;
  /** Why the list could not be loaded; empty when it could. */
  problem: string;
  search: string;
  filter: Filter;
  isChoosing: boolean;
  chosen: ReadonlySet<string>;
  /** The dialogs, the one in front last. */
  opened: readonly Open[];

  setSearch: (search: string) => void;
  setFilter: (filter: Partial<Filter>) => void;
  /** The next, older page. */
  more: () => Promise<void>;
  /** What is new, and what is gone. */
  refresh: () => Promise<void>;
  /** Results as they are now, wherever they are shown. */
  renew: (results: readonly Result[]) => void;
  /** Take results out of the list that are deleted. */
  drop: (ids: readonly string[]) => void;
  choose: (id: string, isChosen: boolean) => void;
  setChoosing: (isChoosing: boolean, chosen?: Iterable<string>) => void;
  /** In front of what is open; instead of it where it is the same view. */
  show: (open: Open) => void;
  /** Close the dialog in front, or all. */
  close: (isAll?: boolean) => void;
}

/** Rows that are asked for at first, so that they come at once, and behind them. */
const PAGE = 60;
const OLDER_PAGE = 200;

export const gallery = createStore<GalleryState>()((set, get) => {
  /** Counts the loads; the answer to one that is not the last is thrown away. */
  let turn = 0;

  const load = async (before: string | undefined, join: (items: Result[], page: Result[]) => Result[]) => {
    const mine = ++turn;
    set({ isLoading: true, problem: "" });
    try {
      const { search, filter } = get();
      const { kind, board, workflow, isStarred } = filter;
      const limit = before === undefined ? PAGE : OLDER_PAGE;
      const page = await host.results({
        ...{ search, limit, before, board, workflow },
        kind: kind === "all" ? undefined : kind,
        starred: isStarred ? "true" : undefined,
      });
      if (mine !== turn) return;
      const isAll = page.length < limit;
      set((state) => ({
        items: join(state.items, page),
        isEnd: isAll || (before === undefined && state.isEnd && overlaps(state.items, page)),
        isLoading: false,
      }));
    } catch (error) {
      if (mine === turn) set({ isLoading: false, problem: sentence(error) });
    }
  };

  return {
    items: [],
    isEnd: false,
    isLoading: false,
    problem: "",
    search: "",
    filter: EVERYTHING,
    isChoosing: false,
    chosen: new Set(),
    opened: [],

    setSearch: (search) => {
      if (search === get().search) return;
      set({ search, items: [], isEnd: false });
      void get().refresh();
    },
    setFilter: (change) => {
      set({ filter: { ...get().filter, ...change }, items: [], isEnd: false });
      void get().refresh();
    },
    more: async () => {
      const { isLoading, isEnd, items } = get();
      if (!isLoading && !isEnd) await load(items.at(-1)?.id, withOlder);
    },
    refresh: () => load(undefined, (items, page) => withNewest(items, page, page.length < PAGE)),
    renew: (results) =>
      set((state) => {
        const fresh = new Map(results.map((result) => [result.id, result]));
        const renewed = <T extends Result>(old: T) => (fresh.get(old.id) as T | undefined) ?? old;
        return {
          items: state.items.map(renewed),
          opened: state.opened.map((open): Open => {
            if (open.view === "detail")
              return { ...open, result: renewed(open.result), among: open.among && open.among.map(renewed) };
            return open.view === "canvas" ? { ...open, result: renewed(open.result) } : open;
          }),
        };
      }),
    drop: (ids) =>
      set((state) => {
        const gone = new Set(ids);
        return {
          items: state.items.filter((item) => !gone.has(item.id)),
          chosen: new Set([...state.chosen].filter((id) => !gone.has(id))),
        };
      }),
    choose: (id, isChosen) =>
      set((state) => {
        const chosen = new Set(state.chosen);
        if (isChosen) chosen.add(id);
        else chosen.delete(id);
        return { chosen, isChoosing: true };
      }),
    setChoosing: (isChoosing, chosen = []) => set({ isChoosing, chosen: new Set(chosen) }),
    show: (open) =>
      set(({ opened }) => ({ opened: [...opened.slice(0, opened.at(-1)?.view === open.view ? -1 : undefined), open] })),
    close: (isAll = false) => {
      set(({ opened }) => ({ opened: isAll ? [] : opened.slice(0, -1) }));
    },
  };
});

export function useGallery<T>(select: (state: GalleryState) => T): T {
  return useStore(gallery, select);
}

/** Show another result in the detail that is open, with the same neighbours. */
export function replaceResult(result: Result): void {
  const front = gallery.getState().opened.at(-1);
  if (front?.view === "detail") gallery.getState().show({ ...front, result });
}

function overlaps(items: readonly Result[], page: readonly Result[]): boolean {
  const known = new Set(items.map((item) => item.id));
  return page.some((item) => known.has(item.id));
}
