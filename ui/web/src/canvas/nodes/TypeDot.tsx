import { lookOf } from "../look";

/** The mark of a value type: its shape and its colour both say which it is. */
export function TypeDot({ type, isLinked = false }: { type: string; isLinked?: boolean }) {
  const { shape, isRing } = lookOf(type);
  return <i className={`ll-dot ll-shape-${shape} ${isRing ? "ll-ring" : ""} ${isLinked ? "ll-dot-linked" : ""}`} />;
}
