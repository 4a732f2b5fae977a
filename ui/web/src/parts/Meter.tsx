interface MeterProps {
  /** Says in words what the bar shows; its accessible name. */
  label: string;
  value: number;
  max: number;
  /** "progress" of something under way, a "level" such as memory in use, which warns when it is nearly full, or
   * one "part" beside others. */
  kind?: "progress" | "level" | "part";
  /** What is read aloud instead of the percentage. */
  text?: string;
}

const NEARLY_FULL = 0.9;

/** A thin bar. A progress without a known end (`max` 0) moves to and fro. */
export function Meter({ label, value, max, kind = "progress", text }: MeterProps) {
  const part = max > 0 ? Math.min(Math.max(value / max, 0), 1) : 0;
  const isUnknown = kind === "progress" && max <= 0;
  const tone = kind === "level" && part >= NEARLY_FULL ? "ll-meter-full" : "";
  return (
    <div
      className={`ll-meter ll-meter-${kind} ${tone}`}
      role={kind === "progress" ? "progressbar" : "meter"}
      aria-label={label}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={isUnknown ? undefined : Math.round(part * 100)}
      aria-valuetext={text}
    >
      <span
        className={isUnknown ? "ll-meter-bar ll-meter-unknown" : "ll-meter-bar"}
        style={isUnknown ? undefined : { transform: `scaleX(${part})` }}
      />
    </div>
  );
}
