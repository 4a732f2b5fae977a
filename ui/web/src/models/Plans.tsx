import { t } from "../i18n";
import { formatBytes } from "../parts/format";
import { Icon } from "../parts/icons";
import type { PlanChoice } from "../types";

/** On which plans of this machine a model fits, with what each needs of a device. */
export function Plans({ plans }: { plans: readonly PlanChoice[] }) {
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
      <table>
        <thead>
          <tr>
            <th scope="col">{t("models.plan")}</th>
            <th scope="col">{t("models.per_device")}</th>
            <th scope="col">{t("models.room")}</th>
          </tr>
        </thead>
        <tbody>
          {plans.map(({ plan, bytes_per_device, fits }) => (
            <tr key={plan}>
              <th scope="row">{plan}</th>
              <td>{formatBytes(bytes_per_device)}</td>
              <td className={fits ? "ll-has-room" : "ll-no-room"}>
                {t(fits ? "models.does_fit" : "models.does_not_fit")}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}
