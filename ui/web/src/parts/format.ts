/** Numbers, times and names as people read them. */

import { language, t, word } from "../i18n";
import { worded } from "../worded";

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** 1536 -> "1.5 KiB". */
export function formatBytes(bytes: number): string {
  let value = Math.max(bytes, 0);
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || value >= 100 ? 0 : 1;
  return `${value.toLocaleString(language(), { maximumFractionDigits: digits })} ${UNITS[unit]}`;
}

/** Of what is still to come: whole seconds, and never none. */
export function formatLeft(seconds: number): string {
  return formatSeconds(Math.max(Math.ceil(seconds), 1));
}

/** 0.004 -> "< 0.1 s", 0.42 -> "0.4 s", 75 -> "1 min 15 s", 3720 -> "1 h 2 min". */
export function formatSeconds(seconds: number): string {
  const [isNone, shown] = [seconds <= 0, Math.max(seconds, 0.1)]; // what took time did not take 0 s
  if (seconds < 10) {
    const told = (isNone ? 0 : shown).toLocaleString(language(), { maximumFractionDigits: 1 });
    return seconds < 0.05 && !isNone ? `< ${told} s` : `${told} s`;
  }
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return whole % 60 ? `${minutes} min ${whole % 60} s` : `${minutes} min`;
  return minutes % 60 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${minutes / 60} h`;
}

/** Three digits of any time, short or long: 0.0042 -> "4.2 ms", 1.234 -> "1.23 s". */
export function formatDuration(seconds: number): string {
  if (seconds >= 99.95 || seconds === 0) return formatSeconds(seconds);
  const scales: readonly [number, string][] = [
    [1, "s"],
    [1e3, "ms"],
    [1e6, "µs"],
  ];
  const [scale, unit] = scales.find(([each]) => seconds * each >= 0.9995) ?? [1e6, "µs"];
  const value = seconds * scale;
  return `${value.toLocaleString(language(), { maximumSignificantDigits: 3 })} ${unit}`;
}

/** How far off something is: 0.081 -> "+8 %"; from twice on how many times it is, 91.1 -> "92 ×". */
export function formatPercent(part: number): string {
  if (part > 1) return `${(part + 1).toLocaleString(language(), { maximumSignificantDigits: 2 })} ×`;
  return `${(part * 100).toLocaleString(language(), { maximumFractionDigits: 0, signDisplay: "exceptZero" })} %`;
}

/** A day and time of day; the time alone for today. */
export function moment(epochSeconds: number): string {
  const date = new Date(epochSeconds * 1000);
  const isToday = date.toDateString() === new Date().toDateString();
  const style = isToday
    ? { timeStyle: "short" as const }
    : { dateStyle: "medium" as const, timeStyle: "short" as const };
  return new Intl.DateTimeFormat(language(), style).format(date);
}

/** "negative_prompt" -> "negative prompt", or its word in the page's language. */
export function spoken(name: string): string {
  return word("socket", name) ?? name.replaceAll("_", " ");
}

/** The name of a workflow as a title, in the page's language: "first_picture" -> "First picture". */
export function titled(name: string): string {
  const words = name.replaceAll("_", " ");
  return worded(words.charAt(0).toUpperCase() + words.slice(1));
}

/** A value type, or a list of one, as people read it. */
export function spokenType(type: string): string {
  const [, of] = /^list\[(.+)\]$/.exec(type) ?? [];
  return of ? t("core.list_of", { type: spokenType(of) }) : (word("type", type) ?? type);
}
