import { t } from "../i18n";
import { formatBytes } from "../parts/format";
import type { LoadedPart } from "../types";

/** The parts of models that are in memory now. */
export function Loaded({ parts }: { parts: readonly LoadedPart[] }) {
  return (
    <section className="ll-sheet" aria-labelledby="ll-loaded-title">
      <h3 id="ll-loaded-title">{t("models.loaded")}</h3>
      {parts.length === 0 && <p className="ll-hint">{t("models.none_loaded")}</p>}
      {[...byModel(parts)].map(([name, own]) => (
        <div key={name} className="ll-loaded">
          <p className="ll-loaded-name">{name}</p>
          <ul className="ll-plain-list">
            {alike(own).map(({ component, device, bytes, count }) => (
              <li key={`${component} ${device} ${bytes}`}>
                <span>{component}</span>
                <code>{device}</code>
                <span>{count > 1 ? `${count} \u00d7 ${formatBytes(bytes)}` : formatBytes(bytes)}</span>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </section>
  );
}

/** Each once, with how often it is there: ranks on one device have one each. */
export function alike(parts: readonly LoadedPart[]): (LoadedPart & { count: number })[] {
  const found = new Map<string, LoadedPart & { count: number }>();
  for (const part of parts) {
    const key = JSON.stringify([part.component, part.device, part.bytes]);
    found.set(key, { ...part, count: (found.get(key)?.count ?? 0) + 1 });
  }
  return [...found.values()];
}

function byModel(parts: readonly LoadedPart[]): Map<string, LoadedPart[]> {
  const models = new Map<string, LoadedPart[]>();
  for (const part of parts) models.set(part.name, [...(models.get(part.name) ?? []), part]);
  return models;
}
