import { useId, useState } from "react";
import { t } from "../../i18n";
import { IconButton } from "../../parts/IconButton";
import { keepTyping } from "../../parts/keys";
import type { PlanStrategies, PlanView } from "../../types";
import { tryPlan, type NextPlan } from "../panelState";
import { devicesFor } from "./planDevices";
import { DEGREES, numRanks, ONE_RANK, parsePlan, planText, TEXT_CHOICES, withDegree, type Degree } from "./planText";

const MAX_DEGREE = 64;

interface PlanDegreesProps {
  view: PlanView;
  tried: NextPlan | null;
}

/** Steppers for the degrees of the mesh; every change is tried at once. */
export function PlanDegrees({ view, tried }: PlanDegreesProps) {
  const id = useId();
  const plan = tried ? parsePlan(tried.plan) : { ...ONE_RANK, ...view.nodes[0]?.strategies };
  const change = (next: PlanStrategies) => {
    tryPlan({ plan: planText(next), devices: devicesFor(numRanks(next), view.devices) });
  };
  return (
    <div className="ll-degrees">
      {DEGREES.map((name) => (
        <Stepper
          key={name}
          name={name}
          degree={plan[name]}
          onChange={(degree) => change(withDegree(plan, name, degree))}
        />
      ))}
      <label htmlFor={`${id}-text`}>{t("panels.degree_text")}</label>
      <select
        id={`${id}-text`}
        className="ll-input"
        value={plan.text || "auto"}
        onChange={(event) => change({ ...plan, text: event.target.value })}
      >
        {TEXT_CHOICES.map((choice) => (
          <option key={choice}>{choice}</option>
        ))}
      </select>
      <label htmlFor={`${id}-devices`}>{t("panels.degree_devices")}</label>
      <DevicesField
        key={tried?.devices ?? ""}
        id={`${id}-devices`}
        devices={tried?.devices ?? ""}
        onChange={(devices) => tryPlan({ plan: tried ? tried.plan : "auto", devices })}
      />
    </div>
  );
}

interface StepperProps {
  name: Degree;
  degree: number;
  onChange: (degree: number) => void;
}

function Stepper({ name, degree, onChange }: StepperProps) {
  const label = t(`panels.degree_${name}`);
  return (
    <>
      <span>{label}</span>
      <div className="ll-stepper" role="group" aria-label={label} title={t(`panels.degree_${name}_help`)}>
        <IconButton
          icon="minus"
          label={t("panels.less", { name: label })}
          disabled={degree <= 1}
          onClick={() => onChange(degree - 1)}
        />
        <output>{degree}</output>
        <IconButton
          icon="plus"
          label={t("panels.more", { name: label })}
          disabled={degree >= MAX_DEGREE}
          onClick={() => onChange(degree + 1)}
        />
      </div>
    </>
  );
}

interface DevicesFieldProps {
  id: string;
  devices: string;
  onChange: (devices: string) => void;
}

function DevicesField({ id, devices, onChange }: DevicesFieldProps) {
  const [typed, setTyped] = useState(devices);
  const settle = () => {
    if (typed.trim() !== devices) onChange(typed.trim());
  };
  return (
    <input
      id={id}
      className="ll-input"
      type="text"
      value={typed}
      placeholder={t("panels.devices_own")}
      spellCheck={false}
      autoComplete="off"
      onChange={(event) => setTyped(event.target.value)}
      onBlur={settle}
      onKeyDown={(event) => {
        keepTyping(event);
        if (event.key === "Enter") settle();
      }}
    />
  );
}
