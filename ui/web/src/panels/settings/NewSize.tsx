import { useId } from "react";
import { t } from "../../i18n";
import { spoken } from "../../parts/format";
import { changeSettings, MOST_PIXELS, sideOf, useSettings } from "../../store/settings";

const SIDES = ["width", "height"] as const;

/** Which size a canvas has that is added: Empty Latents, until it is set there. */
export function NewSize() {
  const id = useId();
  return (
    <div className="ll-settings-line" role="group" aria-labelledby={id}>
      <span id={id}>{t("settings.new_size")}</span>
      <span className="ll-settings-size">
        {SIDES.map((side, index) => (
          <Side key={side} side={side} before={index > 0 ? "×" : ""} />
        ))}
      </span>
    </div>
  );
}

function Side({ side, before }: { side: (typeof SIDES)[number]; before: string }) {
  const value = useSettings((state) => state[side]);
  return (
    <>
      {before && <span aria-hidden="true">{before}</span>}
      <input
        type="number"
        className="ll-input"
        aria-label={spoken(side)}
        placeholder={t("settings.own_size")}
        min={0}
        max={MOST_PIXELS}
        step={16}
        value={value || ""}
        onChange={(event) => changeSettings({ [side]: sideOf(event.target.valueAsNumber) })}
      />
    </>
  );
}
