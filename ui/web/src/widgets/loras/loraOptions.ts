/** LoRAs in words: how the picker lists them, and their facts in a line. */

import { t } from "../../i18n";
import { formatBytes } from "../../parts/format";
import type { Option } from "../../parts/overlays/Combobox";
import type { LoraEntry } from "../../types";
import { worded } from "../../worded";

/** In the order of the server, those first that fit; then the files named before that are none of these. */
export function loraOptions(
  loras: readonly LoraEntry[],
  used: readonly string[],
  pictureOf: (id: string) => string,
): Option[] {
  const here = new Set(loras.map(({ path }) => path));
  const named = used.filter((file) => !here.has(file));
  return [
    ...loras.map((lora) => ({
      value: lora.path,
      label: lora.title || lora.name,
      detail: factsOf(lora),
      picture: lora.has_picture ? pictureOf(lora.id) : undefined,
      problem: lora.verdict === "other" ? t("widgets.lora_other", { why: worded(lora.why) }) : undefined,
      isOff: lora.verdict === "other",
    })),
    ...named.map((file) => ({ value: file })),
  ];
}

/** Size, rank, model and words of a LoRA. */
export function factsOf(lora: LoraEntry): string {
  const isSure = lora.verdict === "fits" || lora.verdict === "likely";
  return [
    isSure ? t(`widgets.lora_${lora.verdict as "fits" | "likely"}`) : "",
    lora.title && lora.title !== lora.name ? lora.name : "",
    formatBytes(lora.bytes),
    lora.rank ? t("widgets.lora_rank", { rank: lora.rank }) : "",
    lora.made_for,
    lora.triggers.join(", "),
  ]
    .filter(Boolean)
    .join(" · ");
}
