import { asRead } from "../../exact";
import type { Recalled, RecallKind } from "../../gallery/recall/places";
import { recallOne } from "../../gallery/recall/recallActions";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { closeDialog } from "../../store/page";
import type { ForeignFacts } from "../../types";

/** What a picture of another program says of how it was made, and what of it can be used here; nothing of it is run. */
export function ForeignPicture({ foreign }: { foreign: ForeignFacts }) {
  const { prompt, negative_prompt, seed, width, height } = foreign;
  const value: Recalled = {
    ...(prompt && { prompt }),
    ...(negative_prompt && { negative_prompt }),
    ...(seed !== null && { seed }),
    ...(width !== null && height !== null && { size: { width, height } }),
  };
  const use = (kind: RecallKind) => {
    closeDialog();
    recallOne(kind, value);
  };
  return (
    <div className="ll-foreign">
      <dl>
        {factsOf(foreign).map(([name, text]) => (
          <div key={name} className="ll-fact">
            <dt>{name}</dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
      <div className="ll-foreign-uses">
        {(Object.keys(value) as RecallKind[]).map((kind) => (
          <Button key={kind} onClick={() => use(kind)}>
            {t(`gallery.recall_${kind}`)}
          </Button>
        ))}
      </div>
    </div>
  );
}

function factsOf(foreign: ForeignFacts): [string, string][] {
  const { width, height } = foreign;
  const number = (value: number | string | null) => (value === null ? "" : asRead(value));
  const facts: [string, string][] = [
    [t("gallery.prompt"), foreign.prompt],
    [t("panels.foreign_negative"), foreign.negative_prompt],
    [t("gallery.model"), foreign.model],
    ["LoRA", foreign.loras.join(", ")],
    [t("gallery.seed"), number(foreign.seed)],
    [t("panels.foreign_steps"), number(foreign.steps)],
    [t("panels.foreign_guidance"), number(foreign.guidance)],
    [t("panels.foreign_sampler"), [foreign.sampler, foreign.scheduler].filter(Boolean).join(", ")],
    [t("panels.foreign_strength"), number(foreign.strength)],
    [t("gallery.size"), width !== null && height !== null ? t("gallery.pixels", { width, height }) : ""],
    ...Object.entries(foreign.more),
  ];
  return facts.filter(([, text]) => text !== "");
}
