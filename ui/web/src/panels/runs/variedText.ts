/** What a sweep changed in one run, in words. */

import { asRead } from "../../exact";
import type { Json } from "../../types";

/** "seed 3, steps 20" */
export function variedText(varied: Readonly<Record<string, Json>>): string {
  return Object.entries(varied)
    .map(([name, value]) => `${name} ${asRead(value)}`)
    .join(", ");
}
