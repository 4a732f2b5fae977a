import { useRef, type CSSProperties } from "react";
import { t } from "../../i18n";
import { keepTyping } from "../../parts/keys";
import { MOVING, SETTLED, type WidgetProps } from "../widget";
import { NumberInput } from "./NumberInput";
import { sliderOf } from "./numberRange";

interface NumberFieldProps extends WidgetProps {
  /** The range of the slider, where it is another than that of the number. */
  slide?: Parameters<typeof sliderOf>[0];
}

/** A number: typed, and with a slider where its range has few enough positions. */
export function NumberField({ slide, ...props }: NumberFieldProps) {
  const { spec, label, value, onChange, disabled, meant, own } = props;
  const isMoving = useRef(false);
  const lastOwn = useRef<number | null>(null); // it is told only while the value stands for it
  if (own !== undefined) lastOwn.current = own;
  const number = typeof value === "number" ? value : 0;
  const slider = sliderOf(slide ?? spec, lastOwn.current, number);
  if (!slider) {
    return (
      <div className="ll-number">
        <NumberInput {...props} />
      </div>
    );
  }
  const at = own ?? (typeof value === "number" ? value : slider.min);
  const part = (at - slider.min) / (slider.max - slider.min);
  const settle = () => {
    if (isMoving.current) onChange(number, SETTLED);
    isMoving.current = false;
  };
  return (
    <div className={`ll-number ll-number-sliding ${meant ? "ll-number-meant" : ""}`}>
      <input
        type="range"
        className="ll-slider nodrag"
        style={{ "--ll-part": `${Math.min(Math.max(part, 0), 1) * 100}%` } as CSSProperties}
        aria-label={t("widgets.slider", { name: label })}
        {...slider}
        value={at}
        disabled={disabled}
        onChange={(event) => {
          isMoving.current = true;
          onChange(Number(event.target.value), MOVING);
        }}
        onPointerUp={settle}
        onKeyUp={settle}
        onKeyDown={keepTyping}
      />
      <NumberInput {...props} />
    </div>
  );
}
