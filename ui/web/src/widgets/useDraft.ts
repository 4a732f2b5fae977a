import { useState } from "react";
import { MOVING, SETTLED, asText, type WidgetProps } from "./widget";

/** Text while it is typed: told as moving at each key, settled when it is left. */
export function useDraft(value: WidgetProps["value"], onChange: WidgetProps["onChange"]) {
  const [typed, setTyped] = useState<string | null>(null);
  const [before, setBefore] = useState("");
  return {
    text: typed ?? asText(value),
    type: (text: string) => {
      if (typed === null) setBefore(asText(value));
      setTyped(text);
      onChange(text, MOVING);
    },
    settle: () => {
      if (typed === null) return;
      setTyped(null);
      onChange(typed, SETTLED);
    },
    takeBack: () => {
      if (typed === null) return;
      setTyped(null);
      onChange(before, SETTLED);
    },
  };
}
