import { t } from "../../i18n";
import { IconButton } from "../../parts/IconButton";
import { SETTLED, type WidgetProps } from "../widget";
import { NumberInput } from "./NumberInput";
import { newSeed, setKept, useIsKept } from "./seeds";

/** A seed: typed, thrown with the dice, and kept from run to run or new for each. */
export function SeedField(props: WidgetProps) {
  const { onChange, disabled, seedKey, spec } = props;
  const throwDice = () => onChange(newSeed(spec), SETTLED);
  return (
    <div className="ll-number ll-seed">
      <NumberInput {...props} />
      <IconButton
        icon="dice"
        size={18}
        className="nodrag"
        label={t("widgets.dice")}
        disabled={disabled}
        onClick={throwDice}
      />
      {seedKey !== undefined && <KeepButton seedKey={seedKey} disabled={disabled} />}
    </div>
  );
}

function KeepButton({ seedKey, disabled }: { seedKey: string; disabled: boolean }) {
  const isKept = useIsKept(seedKey);
  return (
    <IconButton
      icon={isKept ? "lock" : "unlock"}
      className="nodrag"
      label={t("widgets.keep_seed")}
      title={t(isKept ? "widgets.seed_kept" : "widgets.seed_changes")}
      isPressed={isKept}
      disabled={disabled}
      onClick={() => setKept(seedKey, !isKept)}
    />
  );
}
