/** The table of one sweep: what was varied runs along its rows and columns, each cell is one run. */
import { asRead } from "../../exact";
import { spoken } from "../../parts/format";
import type { Result, Run } from "../../types";

type Values = Readonly<Record<string, unknown>>;

/** One heading: the values that all cells below or beside it share. */
export type Point = Values;

export interface Cell {
  run: Run | null;
  results: Result[];
}

export interface SweepTable {
  rows: Point[];
  columns: Point[];
  cells: Cell[][];
}

export function sweepTable(runs: readonly Run[], results: readonly Result[], isTurned = false): SweepTable {
  const varied = new Map<string, Values>();
  for (const run of [...runs].sort(byCreation)) varied.set(run.id, run.varied);
  for (const result of [...results].sort((a, b) => a.time - b.time)) {
    if (!varied.has(result.run)) varied.set(result.run, result.varied);
  }
  const names = [...new Set([...varied.values()].flatMap((values) => Object.keys(values)))];
  const along = names.slice(-1);
  const down = names.slice(0, -1);
  const [columnNames, rowNames] = isTurned ? [down, along] : [along, down];
  const points = [...varied.values()];
  const columns = distinct(points, columnNames);
  const rows = distinct(points, rowNames);
  const cells = rows.map(() => columns.map((): Cell => ({ run: null, results: [] })));
  for (const [id, values] of varied) {
    const row = rows.findIndex((point) => agrees(point, values));
    const column = columns.findIndex((point) => agrees(point, values));
    const cell = cells[row]?.[column];
    if (!cell) continue;
    cell.run = runs.find((run) => run.id === id) ?? cell.run;
    cell.results.push(...results.filter((result) => result.run === id));
  }
  return { rows, columns, cells };
}

/** "a red star, seed 3, denoise: steps 5": a point as a heading; a prompt speaks for itself. Empty when nothing varies
 * on that side. */
export function heading(point: Point): string {
  return Object.entries(point)
    .map(([name, value]) => (name === "prompt" ? shown(value) : `${named(name)} ${shown(value)}`))
    .join(", ");
}

/** A param, or an input of a node by its name in the file. */
function named(name: string): string {
  return name.split(".").map(spoken).join(": ");
}

/** A value as people read it; texts stay as they are. */
export function shown(value: unknown): string {
  return value === undefined ? "" : asRead(value);
}

/** The nodes that made results, in order: a workflow may save more than one picture in a run. */
export function makers(results: readonly Result[]): string[] {
  return [...new Set(results.map((result) => result.node))].sort();
}

function byCreation(a: Run, b: Run): number {
  return a.created - b.created;
}

function distinct(all: readonly Values[], names: readonly string[]): Point[] {
  const found = new Map<string, Point>();
  for (const values of all) {
    const point = Object.fromEntries(names.filter((name) => name in values).map((name) => [name, values[name]]));
    const key = JSON.stringify(point);
    if (!found.has(key)) found.set(key, point);
  }
  const points = [...found.values()];
  return points.every(isNumeric) ? points.sort(byNumbers(names)) : points;
}

function isNumeric(point: Point): boolean {
  return Object.values(point).every((value) => typeof value === "number");
}

function byNumbers(names: readonly string[]): (a: Point, b: Point) => number {
  return (a, b) => {
    for (const name of names) {
      const difference = Number(a[name] ?? 0) - Number(b[name] ?? 0);
      if (difference !== 0) return difference;
    }
    return 0;
  };
}

function agrees(point: Point, values: Values): boolean {
  return Object.entries(point).every(([name, value]) => JSON.stringify(values[name]) === JSON.stringify(value));
}
