import { useId } from "react";
import { t } from "../../i18n";
import { formatBytes, formatDuration } from "../../parts/format";
import { Icon } from "../../parts/icons";
import { Meter } from "../../parts/Meter";
import { Notice } from "../../parts/Notice";
import type { PredictedPlan, Prediction } from "../../types";
import { worded } from "../../worded";

interface PredictionOfProps {
  prediction: Prediction;
  /** Whether what each rank holds is told beside it. */
  hasRanks: boolean;
}

/** How long a run would take and what it would hold, why no other plan, and all of them beside each other. */
export function PredictionOf({ prediction, hasRanks }: PredictionOfProps) {
  const { rejected, remedy, hint } = prediction;
  return (
    <>
      <Times prediction={prediction} />
      {!hasRanks && <FullestDevice prediction={prediction} />}
      {prediction.lacking_bytes > 0 && (
        <Notice kind="warning">{t("panels.lacks", { bytes: formatBytes(prediction.lacking_bytes) })}</Notice>
      )}
      {remedy && <p>{t("panels.remedy", { remedy: worded(remedy) })}</p>}
      {hint && <p>{t("panels.faster", { hint: worded(hint) })}</p>}
      {rejected.length > 0 && (
        <>
          <h4>{t("panels.rejected")}</h4>
          <ul className="ll-rejected">
            {rejected.map(({ plan, step_s, why }) => (
              <li key={plan}>
                <code>{plan}</code>{" "}
                {step_s === null
                  ? worded(why)
                  : t("panels.rejected_step", { time: formatDuration(step_s), why: worded(why) })}
              </li>
            ))}
          </ul>
        </>
      )}
      <Comparison plans={prediction.plans} />
    </>
  );
}

/** What it would take, unless nothing tells how fast the machine is. */
function Times({ prediction }: { prediction: Prediction }) {
  const { steps, step_s, steps_s, text_s, decode_s, seconds, load_s } = prediction;
  return (
    <dl className="ll-predicted">
      <div>
        <dt>{t("panels.predicted_step")}</dt>
        <dd>{durationText(step_s)}</dd>
      </div>
      <div>
        <dt>{t("panels.predicted_run")}</dt>
        <dd>
          {durationText(seconds)}
          {steps_s !== null && text_s !== null && decode_s !== null && (
            <span className="ll-quiet">
              {t("panels.predicted_parts", {
                text: formatDuration(text_s),
                count: steps,
                steps: formatDuration(steps_s),
                decode: formatDuration(decode_s),
              })}
            </span>
          )}
        </dd>
      </div>
      <div>
        <dt>{t("panels.predicted_load")}</dt>
        <dd>{durationText(load_s)}</dd>
      </div>
    </dl>
  );
}

function durationText(seconds: number | null): string {
  return seconds === null ? t("panels.not_measured") : formatDuration(seconds);
}

/** What the device that holds most would hold, as a bar against its memory. */
function FullestDevice({ prediction }: { prediction: Prediction }) {
  const { bytes, machine, lacking_bytes } = prediction;
  const text = t("panels.rank_need", { bytes: formatBytes(bytes), total: formatBytes(machine.memory_bytes) });
  return (
    <div className={`ll-rank ${lacking_bytes > 0 ? "ll-rank-over" : ""}`}>
      <span className="ll-rank-name">{t("panels.fullest_device")}</span>
      <span className="ll-rank-text">
        {lacking_bytes > 0 && <Icon name="warning" size={14} />}
        {text}
      </span>
      <Meter kind="level" label={t("panels.fullest_device")} value={bytes} max={machine.memory_bytes} text={text} />
    </div>
  );
}

/** Time and memory of all plans, the fastest first, as numbers and bars. */
function Comparison({ plans }: { plans: readonly PredictedPlan[] }) {
  const id = useId();
  const slowest = Math.max(...plans.map(({ seconds }) => seconds ?? 0));
  const most = Math.max(...plans.map(({ bytes }) => bytes));
  return (
    <details className="ll-comparison">
      <summary id={id}>{t("panels.comparison", { count: plans.length })}</summary>
      <table className="ll-choices" aria-labelledby={id}>
        <thead>
          <tr>
            <th scope="col">{t("panels.choice_plan")}</th>
            <th scope="col">{t("panels.predicted_run")}</th>
            <th scope="col">{t("panels.choice_bytes")}</th>
          </tr>
        </thead>
        <tbody>
          {plans.map((plan) => (
            <tr key={`${plan.plan} ${plan.num_devices}`} aria-current={plan.is_shown || undefined}>
              <th scope="row">
                {plan.plan.replaceAll(",", ", ")}
                {plan.is_shown && <span className="ll-quiet">{t("panels.is_shown")}</span>}
              </th>
              <td>
                {plan.seconds !== null && <Bar part={plan.seconds / slowest} text={formatDuration(plan.seconds)} />}
              </td>
              <td>
                <Bar part={plan.bytes / most} text={formatBytes(plan.bytes)} />
                {plan.lacking_bytes > 0 && (
                  <span className="ll-fits-not">
                    <Icon name="close" size={14} />
                    {t("panels.fits_not")}
                  </span>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}

/** The number says it; the bar is for the eye. */
function Bar({ part, text }: { part: number; text: string }) {
  return (
    <>
      <span>{text}</span>
      <span className="ll-plan-bar" aria-hidden="true">
        <span style={{ width: `${Math.max(part * 100, 1)}%` }} />
      </span>
    </>
  );
}
