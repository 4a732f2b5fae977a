/** Records and lists, changed without touching the old ones; records are keyed by names from files, so nothing that every
object inherits is ever found in them. */

export type Names<T> = Readonly<Record<string, T>>;

/** The record's own entry; never something inherited, such as `constructor`. */
export function own<T>(record: Names<T>, key: string): T | undefined {
  return Object.hasOwn(record, key) ? record[key] : undefined;
}

export function has(record: Names<unknown>, key: string): boolean {
  return Object.hasOwn(record, key);
}

export function mapRecord<T, U>(record: Names<T>, change: (item: T, key: string) => U): Record<string, U> {
  return Object.fromEntries(Object.entries(record).map(([key, item]) => [key, change(item, key)]));
}

export function filterRecord<T>(record: Names<T>, keep: (item: T, key: string) => boolean): Record<string, T> {
  return Object.fromEntries(Object.entries(record).filter(([key, item]) => keep(item, key)));
}

/** The record with its entries changed; the record itself where none is. */
export function changeRecord<T>(record: Record<string, T>, change: (item: T, key: string) => T): Record<string, T> {
  const changed = mapRecord(record, change);
  return Object.keys(record).every((key) => record[key] === changed[key]) ? record : changed;
}

/** The list with its items changed; the list itself where none is. */
export function changeList<T>(list: T[], change: (item: T) => T): T[] {
  const changed = list.map(change);
  return list.every((item, index) => item === changed[index]) ? list : changed;
}

/** The list without some items; the list itself where all stay. */
export function filterList<T>(list: T[], keep: (item: T) => boolean): T[] {
  return list.every(keep) ? list : list.filter(keep);
}

/** The object with some fields set; the object itself where they are what they were. */
export function withFields<T extends object>(old: T, fields: Partial<NoInfer<T>>): T {
  const isSame = (Object.keys(fields) as (keyof T)[]).every((key) => old[key] === fields[key]);
  return isSame ? old : { ...old, ...fields };
}

/** The record with one entry set, in its old place where there was one. */
export function withEntry<T>(record: Names<T>, key: string, item: T): Record<string, T> {
  return has(record, key)
    ? mapRecord(record, (old, name) => (name === key ? item : old))
    : Object.fromEntries([...Object.entries(record), [key, item]]);
}

export function without<T>(record: Names<T>, key: string): Record<string, T> {
  return filterRecord(record, (_, name) => name !== key);
}

/** The record with one key renamed, in its old place. */
export function renameKey<T>(record: Names<T>, from: string, to: string): Record<string, T> {
  return Object.fromEntries(Object.entries(record).map(([key, item]) => [key === from ? to : key, item]));
}
