/** Which nodes were added last, in this browser. */

const KEY = "loom.used_nodes";
const MOST = 40;

/** Node types, the last used one first. */
export function usedNodes(): string[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(kept) ? kept.filter((type) => typeof type === "string") : [];
  } catch {
    return [];
  }
}

export function noteUse(type: string): void {
  try {
    const kept = [type, ...usedNodes().filter((other) => other !== type)];
    localStorage.setItem(KEY, JSON.stringify(kept.slice(0, MOST)));
  } catch {
    // A browser that keeps nothing: the palette is then in its usual order.
  }
}
