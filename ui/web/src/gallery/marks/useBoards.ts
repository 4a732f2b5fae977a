/** The user's boards and tags, and the names of the workflows that made results, read again whenever results change. */

import { useEffect, useState } from "react";
import { useStore } from "zustand";
import { createStore } from "zustand/vanilla";
import { host, sentence } from "../../host";
import { toast } from "../../store/page";
import type { BoardRow, Maker, TagRow } from "../../types";
import { useResultsRevision } from "../useResultsRevision";

interface Known {
  boards: readonly BoardRow[];
  tags: readonly TagRow[];
  makers: readonly Maker[];
}

const store = createStore<Known>(() => ({ boards: [], tags: [], makers: [] }));
let asked = "";

/** Read them now. */
export async function readMarks(): Promise<void> {
  try {
    const [boards, tags, makers] = await Promise.all([host.boards(), host.tags(), host.makers()]);
    store.setState({ boards, tags, makers });
  } catch (error) {
    toast({ kind: "error", text: sentence(error), about: "marks" });
  }
}

export function useMarks(): Known {
  const revision = useResultsRevision();
  useEffect(() => {
    if (asked === revision) return;
    asked = revision;
    void readMarks();
  }, [revision]);
  return useStore(store);
}

/** The id of the board with that name, made where there is none; null where that failed. */
export async function boardNamed(name: string): Promise<string | null> {
  const known = store.getState().boards.find((board) => board.name.toLowerCase() === name.trim().toLowerCase());
  if (known) return known.id;
  try {
    const { id } = await host.createBoard(name);
    await readMarks();
    return id;
  } catch (error) {
    toast({ kind: "error", text: sentence(error) });
    return null;
  }
}

/** What is done with a board: its outcome is read again, and what went wrong is said. */
export function useBoardWork(): { isBusy: boolean; work: (change: () => Promise<unknown>) => Promise<boolean> } {
  const [isBusy, setBusy] = useState(false);
  const work = async (change: () => Promise<unknown>) => {
    setBusy(true);
    try {
      await change();
      await readMarks();
      return true;
    } catch (error) {
      toast({ kind: "error", text: sentence(error) });
      return false;
    } finally {
      setBusy(false);
    }
  };
  return { isBusy, work };
}
