import { useId } from "react";
import { language, t } from "../../i18n";
import { IconButton } from "../../parts/IconButton";
import type { InputSpec, Sizes } from "../../types";
import { NumberField } from "./NumberField";
import { areasOf, megapixels, painted, pixelsOf, RATIOS, ratioOf, scaled, sizeOf, type Size } from "./sizes";

interface SizePickerProps {
  /** As it is written: zeros stand for the model's own, or for a picture's shape. */
  size: Size;
  sizes: Sizes;
  onPick: (size: Size, isSettled: boolean) => void;
}

/** A picture's shape and its megapixels: the sides become what the model takes. */
export function SizePicker({ size, sizes, onPick }: SizePickerProps) {
  const id = useId();
  const now = painted(size, sizes);
  const isOpen = size.width === 0 && size.height === 0;
  const chosen = isOpen && sizes.has_shape ? "" : ratioOf(now, sizes);
  const area = now.width * now.height;
  const spec: InputSpec = {
    name: "megapixels",
    type: "float",
    required: false,
    default: null,
    choices: [],
    ...areasOf(sizes, sizes),
    widget: "",
    advanced: false,
    auto: false,
    help: "",
  };
  return (
    <div className="ll-size" role="group" aria-label={t("widgets.shape")}>
      {RATIOS.map((ratio) => (
        <button
          key={ratio}
          type="button"
          className="ll-shape"
          aria-pressed={ratio === chosen}
          title={shapeText(sizeOf(ratio, area, sizes))}
          onClick={() => onPick(sizeOf(ratio, area, sizes), true)}
        >
          {ratio}
        </button>
      ))}
      <button
        type="button"
        className="ll-shape"
        aria-pressed={isOpen}
        title={sizes.has_shape ? undefined : shapeText(sizes)}
        onClick={() => onPick({ width: 0, height: 0 }, true)}
      >
        {t(sizes.has_shape ? "widgets.own_shape" : "widgets.own_size")}
      </button>
      <IconButton
        icon="swap"
        className="ll-shape nodrag"
        label={t("widgets.swap_sides")}
        disabled={(isOpen && sizes.has_shape) || now.width === now.height}
        onClick={() => onPick({ width: now.height, height: now.width }, true)}
      />
      <div className="ll-size-area">
        <label htmlFor={id}>{t("widgets.megapixels")}</label>
        <NumberField
          id={id}
          spec={spec}
          label={t("widgets.megapixels")}
          value={megapixels(now)}
          disabled={false}
          onChange={(mega, { commit }) => onPick(scaled(now, pixelsOf(Number(mega), sizes), sizes), commit)}
        />
      </div>
      <p className="ll-field-help">
        {isOpen && sizes.has_shape ? t("widgets.as_picture") : t("widgets.painted", { size: shapeText(now) })}{" "}
        {likes(sizes)}
      </p>
    </div>
  );
}

function likes(sizes: Sizes): string {
  const { multiple, most_side: most } = sizes;
  const area = megapixels(sizes).toLocaleString(language(), { maximumSignificantDigits: 2 });
  const said = t("widgets.likes", { size: shapeText(sizes), area, multiple });
  return most ? `${said} ${t("widgets.likes_most", { most })}` : said;
}

function shapeText({ width, height }: Size): string {
  return `${width} × ${height}`;
}
