/** A LoRA's facts in a line. */

import { t } from "../i18n";
import { formatBytes } from "../parts/format";
import type { LoraEntry } from "../types";

/** Whether it fits, its size and rank, the model that it names, and its words. */
export function loraFacts({ verdict, title, name, bytes, rank, made_for, triggers }: LoraEntry): string {
  const fits = verdict === "fits" ? t("models.lora_fits") : verdict === "likely" ? t("models.lora_likely") : "";
  const file = title && title !== name ? name : "";
  const ranked = rank ? t("models.lora_rank", { rank }) : "";
  return [fits, file, formatBytes(bytes), ranked, made_for, triggers.join(", ")].filter(Boolean).join(" · ");
}
