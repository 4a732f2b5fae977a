/** LoRAs as the picker lists them. */

import { t } from "../../i18n";
import { loraFacts } from "../../models/loraFacts";
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
  return [
    ...loras.map((lora) => ({
      value: lora.path,
      label: lora.title || lora.name,
      detail: loraFacts(lora),
      picture: lora.has_picture ? pictureOf(lora.id) : undefined,
      ...(lora.verdict === "other" && { problem: t("widgets.lora_other", { why: worded(lora.why) }), isOff: true }),
    })),
    ...used.filter((file) => !here.has(file)).map((file) => ({ value: file })),
  ];
}
