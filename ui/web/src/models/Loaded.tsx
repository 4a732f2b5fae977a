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
            {own.map(({ component, device, bytes }) => (
              <li key={`${component} ${device}`}>
                <span>{component}</span>
                <code>{device}</code>
                <span>{formatBytes(bytes)}</span>
              </li>
            ))}
          </ul>
        </div>
      ))}
    </section>
  );
}

function byModel(parts: readonly LoadedPart[]): Map<string, LoadedPart[]> {
  const models = new Map<string, LoadedPart[]>();
  for (const part of parts) models.set(part.name, [...(models.get(part.name) ?? []), part]);
  return models;
}
