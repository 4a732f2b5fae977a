import type { WidgetProps } from "../widget";
import { NumberField } from "./NumberField";
import { usualOf } from "./numberRange";

/** How strongly something works: the slider has the usual strengths, any that is allowed can be typed. */
export function StrengthField(props: WidgetProps) {
  const { spec, value } = props;
  return <NumberField {...props} slide={usualOf(spec, typeof value === "number" ? value : 0)} />;
}
