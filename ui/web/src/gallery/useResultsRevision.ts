import { useLive } from "../store/live";

/** Changes whenever results are made or deleted, and when the server was restarted. */
export function useResultsRevision(): string {
  return useLive((state) => `${state.server} ${state.results}`);
}
