import { useEffect, useState, type ComponentType } from "react";
import { t } from "../i18n";
import { toast } from "../store/page";

/** A component whose code is read when it is first drawn; where it cannot be had, a message says what to do. */
export function lazily<P extends object>(read: () => Promise<ComponentType<P>>): ComponentType<P> {
  let known: ComponentType<P> | null = null;
  return function Lazy(props: P) {
    const [Part, show] = useState(() => known);
    useEffect(() => {
      if (Part) return;
      let isGone = false;
      read().then(
        (part) => {
          known = part;
          if (!isGone) show(() => part);
        },
        () => toast({ kind: "error", text: t("frame.part_missing") }),
      );
      return () => {
        isGone = true;
      };
    }, [Part]);
    return Part ? <Part {...props} /> : null;
  };
}
