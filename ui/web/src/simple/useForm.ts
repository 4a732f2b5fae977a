import { useRef, useState } from "react";
import type { InputSpec, Json } from "../types";
import { startValues, type FormValues } from "./formFields";
import { keep, keptOf } from "./formMemory";

export interface Form {
  values: FormValues;
  /** The values of this moment, also within the event that changed them. */
  now: () => FormValues;
  set: (name: string, value: Json, isSettled: boolean) => void;
  /** Take all of these and remember them. */
  replace: (values: FormValues) => void;
  reset: () => void;
}

/** The values of a form, remembered for its workflow in this browser; "" remembers nothing. */
export function useForm(workflow: string, fields: readonly InputSpec[]): Form {
  const [values, setValues] = useState(() => startValues(fields, workflow ? keptOf(workflow).values : {}));
  const latest = useRef(values);
  const show = (next: FormValues, isSettled: boolean) => {
    latest.current = next;
    setValues(next);
    if (isSettled && workflow) keep(workflow, { values: next });
  };
  return {
    values,
    now: () => latest.current,
    set: (name, value, isSettled) => show({ ...latest.current, [name]: value }, isSettled),
    replace: (next) => show(next, true),
    reset: () => show(startValues(fields, {}), true),
  };
}
