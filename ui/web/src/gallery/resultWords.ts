/** Facts about results in words: names and times. */
import { language, t } from "../i18n";
import type { Result } from "../types";

/** What a result is, for those who do not see it. */
export function describe(result: Result): string {
  const about = result.prompt || result.name;
  return t(`gallery.${result.kind}_of`, { about });
}

/** Seconds that it plays; a picture does not. */
export function lengthOf({ kind, frames, fps, length_s }: Result): number {
  if (kind === "audio") return length_s;
  return kind === "video" && fps > 0 ? frames / fps : 0;
}

export function number(value: number, digits = 0): string {
  return new Intl.NumberFormat(language(), { maximumFractionDigits: digits }).format(value);
}

export function day(start: number): string {
  const today = new Date().setHours(0, 0, 0, 0);
  if (start === today) return t("gallery.today");
  if (start === new Date(today - 1).setHours(0, 0, 0, 0)) return t("gallery.yesterday");
  return new Intl.DateTimeFormat(language(), { dateStyle: "full" }).format(start);
}
