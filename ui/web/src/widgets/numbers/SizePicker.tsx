import { language, t } from "../../i18n";
import type { Sizes } from "../../types";
import { megapixels, painted, RATIOS, ratioOf, sizeOf, type Size } from "./sizes";

interface SizePickerProps {
  /** As it is written: zeros stand for the model's own. */
  size: Size;
  sizes: Sizes;
  onPick: (size: Size) => void;
}

/** A picture's shape, at the area that it has: the sides become what the model takes. */
export function SizePicker({ size, sizes, onPick }: SizePickerProps) {
  const now = painted(size, sizes);
  const chosen = ratioOf(now, sizes);
  const isOwn = size.width === 0 && size.height === 0;
  const area = megapixels(now).toLocaleString(language(), { maximumSignificantDigits: 2 });
  return (
    <div className="ll-size" role="group" aria-label={t("widgets.shape")}>
      {RATIOS.map((ratio) => (
        <button
          key={ratio}
          type="button"
          className="ll-shape"
          aria-pressed={ratio === chosen}
          title={shapeText(sizeOf(ratio, now.width * now.height, sizes.multiple))}
          onClick={() => onPick(sizeOf(ratio, now.width * now.height, sizes.multiple))}
        >
          {ratio}
        </button>
      ))}
      <button
        type="button"
        className="ll-shape"
        aria-pressed={isOwn}
        title={shapeText(sizes)}
        onClick={() => onPick({ width: 0, height: 0 })}
      >
        {t("widgets.own_size")}
      </button>
      <p className="ll-field-help">{t("widgets.painted", { size: shapeText(now), area, multiple: sizes.multiple })}</p>
    </div>
  );
}

function shapeText({ width, height }: Size): string {
  return `${width} × ${height}`;
}
