import { language } from "../i18n";

/** A day and time of day as people read them; the time alone for today. */
export function moment(epochSeconds: number): string {
  const date = new Date(epochSeconds * 1000);
  const isToday = date.toDateString() === new Date().toDateString();
  const style = isToday
    ? { timeStyle: "short" as const }
    : { dateStyle: "medium" as const, timeStyle: "short" as const };
  return new Intl.DateTimeFormat(language(), style).format(date);
}
