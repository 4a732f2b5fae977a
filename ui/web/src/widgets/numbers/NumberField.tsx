import { useRef, type CSSProperties } from "react";
import { t } from "../../i18n";
import { keepTyping } from "../../parts/keys";
import { MOVING, SETTLED, type WidgetProps } from "../widget";
import { NumberInput } from "./NumberInput";
import { sliderOf } from "./numberRange";

/** A number: typed, and with a slider where its range has few enough positions. */
export function NumberField(props: WidgetProps) {
  const { spec, label, value, onChange, disabled, meant } = props;
  const isMoving = useRef(false);
  const slider = sliderOf(spec);
  if (!slider) {
    return (
      <div className="ll-number">
        <NumberInput {...props} />
      </div>
    );
  }
  const at = typeof value === "number" ? value : slider.min;
  const part = (at - slider.min) / (slider.max - slider.min);
  const settle = () => {
    if (isMoving.current) onChange(at, SETTLED);
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
