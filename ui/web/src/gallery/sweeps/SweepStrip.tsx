import { plural, t } from "../../i18n";
import { Icon } from "../../parts/icons";
import { Meter } from "../../parts/Meter";
import { isOver, useRuns } from "../../store/live";
import { gallery } from "../galleryState";
import { sweeps } from "../resultPages";

const MOST = 12;

/** The newest sweeps, each a door to its grid; those under way show how far they are. */
export function SweepStrip() {
  const found = sweeps(Object.values(useRuns())).slice(0, MOST);
  if (found.length === 0) return null;
  return (
    <nav className="ll-sweeps" aria-label={t("gallery.sweeps")}>
      {found.map(({ batch, name, varied, runs }) => {
        const done = runs.filter((run) => isOver(run.state)).length;
        return (
          <button
            key={batch}
            type="button"
            className="ll-sweep-card"
            onClick={() => gallery.getState().show({ view: "sweep", batch })}
          >
            <Icon name="grid" size={20} />
            <span className="ll-sweep-name">{name}</span>
            <span className="ll-sweep-about">
              {varied.join(" × ")}, {t(`gallery.runs_${plural(runs.length)}`, { count: runs.length })}
            </span>
            {done < runs.length && (
              <Meter label={t("gallery.progress")} value={done} max={runs.length} text={`${done} / ${runs.length}`} />
            )}
          </button>
        );
      })}
    </nav>
  );
}
