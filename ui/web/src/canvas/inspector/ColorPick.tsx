import { t } from "../../i18n";
import { COLORS, colorClass } from "../look";

/** A row of colours to choose from; `value` undefined: several. */
export function ColorPick({ value, onPick }: { value: string | undefined; onPick: (color: string) => void }) {
  return (
    <div className="ll-inspector-line">
      <span id="ll-in-color">{t("canvas.color")}</span>
      <div className="ll-colors" role="group" aria-labelledby="ll-in-color">
        {COLORS.map((color) => {
          const label = t(`canvas.color_${color || "none"}`);
          return (
            <button
              key={color}
              type="button"
              className={`ll-color ${colorClass(color)}`}
              aria-label={label}
              title={label}
              aria-pressed={value === color}
              onClick={() => onPick(color)}
            />
          );
        })}
      </div>
    </div>
  );
}
