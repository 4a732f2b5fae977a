import { useId } from "react";
import { t } from "../../i18n";
import { formatBytes } from "../../parts/format";
import { Meter } from "../../parts/Meter";
import type { Device } from "../../types";
import { worded } from "../../worded";

/** The devices found, with their memory in use. */
export function DeviceList({ devices }: { devices: readonly Device[] }) {
  const id = useId();
  return (
    <section aria-labelledby={id}>
      <h3 id={id}>{t("panels.devices")}</h3>
      <ul className="ll-device-list">
        {devices.map((device) => {
          const used = t("panels.memory_used", {
            used: formatBytes(device.used_bytes),
            total: formatBytes(device.total_bytes),
          });
          return (
            <li key={device.name} className="ll-device">
              <span className="ll-device-name">{device.name}</span>
              <span className="ll-device-title" title={worded(device.title)}>
                {worded(device.title)}
              </span>
              <Meter
                kind="level"
                label={t("panels.memory_of", { device: device.name })}
                value={device.used_bytes}
                max={device.total_bytes}
                text={used}
              />
              <span className="ll-quiet">
                {used}
                {device.load !== null && `, ${t("panels.load", { percent: Math.round(device.load * 100) })}`}
              </span>
            </li>
          );
        })}
      </ul>
    </section>
  );
}
