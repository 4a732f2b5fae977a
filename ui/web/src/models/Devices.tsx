import { t } from "../i18n";
import { formatBytes } from "../parts/format";
import { Meter } from "../parts/Meter";
import { useDevices } from "../store/live";
import type { Device } from "../types";
import { worded } from "../worded";

/** The machine's devices and their free memory, as it is now. `initial` is shown until the first live news. */
export function Devices({ initial }: { initial: readonly Device[] }) {
  const live = useDevices();
  const devices = live.length > 0 ? live : initial;
  return (
    <section className="ll-sheet" aria-labelledby="ll-devices-title">
      <h3 id="ll-devices-title">{t("models.devices")}</h3>
      {devices.length === 0 && <p className="ll-hint">{t("models.no_devices")}</p>}
      <ul className="ll-plain-list">
        {devices.map((device) => (
          <li key={device.name} className="ll-machine">
            <DeviceRow {...device} />
          </li>
        ))}
      </ul>
    </section>
  );
}

function DeviceRow({ name, title, total_bytes, used_bytes, load }: Device) {
  const free = Math.max(total_bytes - used_bytes, 0);
  const text = t("models.free", { free: formatBytes(free), total: formatBytes(total_bytes) });
  return (
    <>
      <div className="ll-machine-head">
        <span className="ll-machine-title">{worded(title || name)}</span>
        <code>{name}</code>
      </div>
      {total_bytes > 0 ? (
        <>
          <Meter
            kind="level"
            label={t("models.memory_of", { name })}
            value={used_bytes}
            max={total_bytes}
            text={text}
          />
          <p className="ll-hint ll-machine-facts">
            <span>{text}</span>
            {load !== null && <span>{t("models.load", { percent: Math.round(load * 100) })}</span>}
          </p>
        </>
      ) : (
        <p className="ll-hint">{t("models.memory_unknown")}</p>
      )}
    </>
  );
}
