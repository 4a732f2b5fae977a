import { Fragment, useId } from "react";
import { t } from "../../i18n";
import { formatBytes } from "../../parts/format";
import { Icon } from "../../parts/icons";
import type { Device, PlanChoice } from "../../types";
import { tryPlan } from "../panelState";
import { devicesFor } from "./planDevices";
import { worded } from "../../worded";

/** A choice names its devices where the server knows them. */
type Choice = PlanChoice & { devices?: string };

interface PlanChoicesProps {
  choices: readonly Choice[];
  current: string;
  devices: readonly Device[];
}

/** All plans that the devices allow, to be tried with a click. */
export function PlanChoices({ choices, current, devices }: PlanChoicesProps) {
  const id = useId();
  return (
    <section aria-labelledby={id}>
      <h3 id={id}>{t("panels.choices")}</h3>
      <table className="ll-choices">
        <thead>
          <tr>
            <th scope="col">{t("panels.choice_plan")}</th>
            <th scope="col">{t("panels.choice_ranks")}</th>
            <th scope="col">{t("panels.choice_bytes")}</th>
            <th scope="col">{t("panels.choice_fits")}</th>
          </tr>
        </thead>
        <tbody>
          {choices.map((choice) => (
            <tr key={`${choice.plan} ${choice.devices}`} aria-current={choice.plan === current || undefined}>
              <th scope="row">
                <button
                  type="button"
                  className="ll-link"
                  onClick={() =>
                    tryPlan({ plan: choice.plan, devices: choice.devices ?? devicesFor(choice.num_ranks, devices) })
                  }
                >
                  <Degrees plan={choice.plan} />
                </button>
                {choice.problem && <span className="ll-quiet">{worded(choice.problem)}</span>}
              </th>
              <td>{choice.num_ranks}</td>
              <td>{formatBytes(choice.bytes_per_device)}</td>
              <td>
                <Fits fits={choice.problem ? false : choice.fits} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** A plan, to be broken between its degrees only. */
function Degrees({ plan }: { plan: string }) {
  return plan.split(",").map((degree, index) => (
    <Fragment key={degree}>
      {index > 0 && (
        <>
          ,<wbr />
        </>
      )}
      {degree}
    </Fragment>
  ));
}

function Fits({ fits }: { fits: boolean | null }) {
  if (fits === null) return <span>{t("panels.fits_unknown")}</span>;
  return (
    <span className={fits ? "ll-fits" : "ll-fits-not"}>
      <Icon name={fits ? "check" : "close"} size={14} />
      {t(fits ? "panels.fits" : "panels.fits_not")}
    </span>
  );
}
