import type { ReactNode } from "react";
import { t } from "../i18n";
import { formatBytes } from "../parts/format";
import { useDevices } from "../store/live";
import type { HubLook } from "../types";
import { worded } from "../worded";
import { deviceFor } from "./deviceFor";

/** What one should know of a model before it is fetched: licence, access, size, room, and what it would do here. */
export function HubFacts({ found }: { found: HubLook }) {
  const { id, revision, licence, licence_url, is_gated, family, does, num_bytes, num_files, had_bytes } = found;
  const page = `https://huggingface.co/${id}`;
  return (
    <dl className="ll-hub-facts">
      {revision && <Fact name={t("models.revision")}>{revision}</Fact>}
      <Fact name={t("models.licence")}>
        {licence_url ? <Outside to={licence_url}>{licence || t("models.licence_text")}</Outside> : licence}
        {!licence && !licence_url && t("models.licence_unknown")}
      </Fact>
      <Fact name={t("models.access")}>
        {is_gated ? t("models.access_gated") : t("models.access_open")}{" "}
        <Outside to={page}>{t("models.hub_page")}</Outside>
      </Fact>
      {family && (
        <Fact name={t("models.family")}>
          {family}
          {does && `: ${does.split(", ").map(worded).join(", ")}`}
        </Fact>
      )}
      {num_bytes > 0 && (
        <>
          <Fact name={t("models.size")}>
            {t("models.size_of", { size: formatBytes(num_bytes), count: num_files })}
            {had_bytes > 0 && ` ${t("models.size_had", { size: formatBytes(had_bytes) })}`}
          </Fact>
          <Fact name={t("models.room")}>{roomText(found)}</Fact>
          <Fact name={t("models.here")}>
            <Here numBytes={num_bytes} />
          </Fact>
        </>
      )}
    </dl>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

/** A page elsewhere, which does not learn where one comes from. */
function Outside({ to, children }: { to: string; children: ReactNode }) {
  return (
    <a href={to} target="_blank" rel="noreferrer">
      {children}
    </a>
  );
}

function roomText({ free_bytes, room_bytes }: HubLook): string {
  const disk = t("models.room_disk", { size: formatBytes(free_bytes) });
  return room_bytes === null ? disk : `${disk} ${t("models.room_own", { size: formatBytes(room_bytes) })}`;
}

/** Reckoned by its files alone; the plans say it exactly once it is here. */
function Here({ numBytes }: { numBytes: number }) {
  const device = deviceFor(numBytes, useDevices());
  return (
    <>{device ? t("models.here_fits", { device: worded(device.title || device.name) }) : t("models.here_large")}</>
  );
}
