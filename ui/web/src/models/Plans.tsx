import { t } from "../i18n";
import { formatBytes } from "../parts/format";
import { Icon } from "../parts/icons";
import type { PlanChoice, Quantized } from "../types";
import { worded } from "../worded";
import { fitTable, type FitTable } from "./fits";

interface PlansProps {
  plans: readonly PlanChoice[];
  /** The same with weights in fewer bits, as far as this machine can do it. */
  quantized: readonly Quantized[];
}

/** On which devices of this machine a model fits, by which plans, with what each needs of a device. */
export function Plans({ plans, quantized }: PlansProps) {
  if (plans.length === 0) return null;
  const fitting = plans.filter(({ fits }) => fits);
  const summary =
    fitting.length === 0 ? t("models.fits_none") : t("models.fits", { count: fitting.length, of: plans.length });
  return (
    <details className="ll-plans">
      <summary>
        <span className={fitting.length ? "ll-has-room" : "ll-no-room"}>
          <Icon name={fitting.length ? "check" : "close"} size={14} />
        </span>
        <span>{summary}</span>
      </summary>
      <ByDevices {...fitTable(plans, quantized)} />
      <p className="ll-hint">{t(quantized.length ? "models.fits_help_quantized" : "models.fits_help")}</p>
      <details className="ll-plans">
        <summary>{t("models.all_plans")}</summary>
        <AllPlans plans={plans} />
      </details>
    </details>
  );
}

/** A line for one device, for two, and so on; a column for each number format of the weights. */
function ByDevices({ columns, rows }: FitTable) {
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">{t("models.devices")}</th>
          {columns.map((each) => (
            <th key={each} scope="col">
              {each === "none" ? t("models.as_it_is") : each}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map(({ devices, cells }) => (
          <tr key={devices}>
            <th scope="row">{devices}</th>
            {cells.map((cell, index) => (
              <td key={columns[index]}>{cell ? <Room {...cell} /> : "–"}</td>
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** What the plan needs on each device, and whether that is there. */
function Room({ plan, num_ranks, bytes_per_device, fits }: PlanChoice) {
  const verdict = fits === null ? "models.fit_unknown" : fits ? "models.does_fit" : "models.does_not_fit";
  return (
    <>
      <span className={fits === null ? "" : fits ? "ll-has-room" : "ll-no-room"}>
        {formatBytes(bytes_per_device)} · {t(verdict)}
      </span>
      {num_ranks > 1 && <span className="ll-fit-plan">{plan}</span>}
    </>
  );
}

function AllPlans({ plans }: { plans: readonly PlanChoice[] }) {
  return (
    <table>
      <thead>
        <tr>
          <th scope="col">{t("models.plan")}</th>
          <th scope="col">{t("models.devices")}</th>
          <th scope="col">{t("models.per_device")}</th>
        </tr>
      </thead>
      <tbody>
        {plans.map((choice) => (
          <tr key={`${choice.plan} ${choice.devices}`}>
            <th scope="row">{choice.plan}</th>
            <td>{choice.devices}</td>
            <td>
              {choice.problem ? (
                <span className="ll-no-room">{worded(choice.problem)}</span>
              ) : (
                <Room {...choice} num_ranks={1} />
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
