import { useId, type ReactNode } from "react";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { IconButton } from "../../parts/IconButton";
import type { IconName } from "../../parts/icons";
import type { Painter } from "./painter";
import { largestBrush, SIGHTS, STEPS, TOOLS, type Settings, type Tool } from "./tools";

const ICONS: Readonly<Record<Tool, IconName>> = { brush: "edit", lasso: "lasso", fill: "fill", hand: "hand" };
const MOST_FEATHER = 128;

interface PaintToolsProps {
  painter: Painter;
  settings: Settings;
  onChange: (some: Partial<Settings>) => void;
  hasPicture: boolean;
  /** By a factor; 0 shows the whole picture. */
  onZoom: (factor: number) => void;
}

/** Above the stage: what the pointer does, what acts on all of the mask, and how it is shown. */
export function PaintTools({ painter, settings, onChange, hasPicture, onZoom }: PaintToolsProps) {
  const { tool, isErasing, size, step, sight, byColour, tolerance, feather } = settings;
  const { width, height } = painter.mask;
  return (
    <div className="ll-paint-tools" role="toolbar" aria-label={t("material.tools")}>
      <div className="ll-paint-set" role="group" aria-label={t("material.tool")}>
        {TOOLS.map((each) => (
          <IconButton
            key={each}
            icon={ICONS[each]}
            size={18}
            label={t(`material.tool_${each}`)}
            isPressed={tool === each}
            onClick={() => onChange({ tool: each })}
          />
        ))}
      </div>
      <div className="ll-paint-set" role="group" aria-label={t("material.does")}>
        {[false, true].map((erases) => (
          <button
            key={String(erases)}
            type="button"
            className="ll-mode"
            aria-pressed={isErasing === erases}
            onClick={() => onChange({ isErasing: erases })}
          >
            {t(erases ? "material.erase" : "material.paint")}
          </button>
        ))}
      </div>
      {tool === "brush" && (
        <Slider
          label={t("material.size")}
          value={size}
          min={1}
          max={largestBrush(width, height)}
          onChange={(next) => onChange({ size: next })}
        />
      )}
      {tool === "fill" && hasPicture && (
        <>
          <label className="ll-paint-check">
            <input
              type="checkbox"
              checked={byColour}
              onChange={(event) => onChange({ byColour: event.target.checked })}
            />
            {t("material.by_colour")}
          </label>
          {byColour && (
            <Slider
              label={t("material.tolerance")}
              value={tolerance}
              min={0}
              max={255}
              onChange={(next) => onChange({ tolerance: next })}
            />
          )}
        </>
      )}
      <div className="ll-paint-set" role="group" aria-label={t("material.whole_mask")}>
        <IconButton
          icon="undo"
          label={t("material.undo")}
          disabled={!painter.history.canUndo}
          onClick={() => painter.undo()}
        />
        <IconButton
          icon="redo"
          label={t("material.redo")}
          disabled={!painter.history.canRedo}
          onClick={() => painter.redo()}
        />
        <Button kind="ghost" onClick={() => painter.invert()}>
          {t("material.invert")}
        </Button>
        <Button kind="ghost" onClick={() => painter.all(255)}>
          {t("material.all")}
        </Button>
        <Button kind="ghost" onClick={() => painter.all(0)}>
          {t("material.none")}
        </Button>
      </div>
      <div className="ll-paint-set" role="group" aria-label={t("material.soft_edge")}>
        <Slider
          label={t("material.feather_by")}
          value={feather}
          min={1}
          max={MOST_FEATHER}
          onChange={(next) => onChange({ feather: next })}
        />
        <Button kind="ghost" onClick={() => painter.feather(feather)}>
          {t("material.feather")}
        </Button>
      </div>
      <Choice label={t("material.step")}>
        <select className="ll-input" value={step} onChange={(event) => onChange({ step: Number(event.target.value) })}>
          {STEPS.map((each) => (
            <option key={each} value={each}>
              {t("material.pixels", { n: each })}
            </option>
          ))}
        </select>
      </Choice>
      <Choice label={t("material.sight")}>
        <select
          className="ll-input"
          value={sight}
          onChange={(event) => onChange({ sight: SIGHTS.find((each) => each === event.target.value) })}
        >
          {SIGHTS.filter((each) => hasPicture || each !== "beside").map((each) => (
            <option key={each} value={each}>
              {t(`material.sight_${each}`)}
            </option>
          ))}
        </select>
      </Choice>
      <div className="ll-paint-set" role="group" aria-label={t("gallery.zoom")}>
        <IconButton icon="zoom-out" label={t("gallery.zoom_out")} onClick={() => onZoom(0.8)} />
        <IconButton icon="zoom-in" label={t("gallery.zoom_in")} onClick={() => onZoom(1.25)} />
        <IconButton icon="fit" label={t("gallery.whole")} onClick={() => onZoom(0)} />
      </div>
    </div>
  );
}

function Choice({ label, children }: { label: string; children: ReactNode }) {
  return (
    <label className="ll-paint-choice">
      <span>{label}</span>
      {children}
    </label>
  );
}

interface SliderProps {
  label: string;
  value: number;
  min: number;
  max: number;
  onChange: (value: number) => void;
}

function Slider({ label, value, min, max, onChange }: SliderProps) {
  const id = useId();
  return (
    <div className="ll-paint-slider">
      <label htmlFor={id}>{label}</label>
      <input
        id={id}
        type="range"
        min={min}
        max={max}
        value={value}
        onChange={(event) => onChange(Number(event.target.value))}
      />
      <span aria-hidden="true">{value}</span>
    </div>
  );
}
