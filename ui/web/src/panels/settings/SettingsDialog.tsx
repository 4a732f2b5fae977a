import { useState } from "react";
import { LANGUAGES, t, type Language } from "../../i18n";
import { Notice } from "../../parts/Notice";
import { Dialog } from "../../parts/overlays/Dialog";
import { allowNotifications, type Permission } from "../../store/notify";
import { closeDialog, setLanguage, usePage } from "../../store/page";
import { changeSettings, useSettings, type ThemeChoice } from "../../store/settings";
import { KeyList } from "./KeyList";
import { NewSize } from "./NewSize";

const THEMES: readonly ThemeChoice[] = ["system", "light", "dark"];

/** What people set for themselves in this browser. */
export function SettingsDialog() {
  const theme = useSettings((state) => state.theme);
  const language = usePage((state) => state.language);
  return (
    <Dialog title={t("settings.title")} description={t("settings.text")} onClose={closeDialog}>
      <div className="ll-settings">
        <Choice
          label={t("settings.theme")}
          options={THEMES.map((id) => [id, t(`settings.theme_${id}`)] as const)}
          chosen={theme}
          onChoose={(next) => changeSettings({ theme: next })}
        />
        <Choice
          label={t("panels.language")}
          options={Object.entries(LANGUAGES) as [Language, string][]}
          chosen={language}
          onChoose={(next) => void setLanguage(next)}
        />
        <NewSize />
        <Notifications />
        <KeyList />
      </div>
    </Dialog>
  );
}

interface ChoiceProps<T extends string> {
  label: string;
  options: readonly (readonly [id: T, label: string])[];
  chosen: T;
  onChoose: (id: T) => void;
}

function Choice<T extends string>({ label, options, chosen, onChoose }: ChoiceProps<T>) {
  return (
    <div className="ll-settings-line">
      <span>{label}</span>
      <div className="ll-modes" role="group" aria-label={label}>
        {options.map(([id, shown]) => (
          <button key={id} type="button" className="ll-mode" aria-pressed={id === chosen} onClick={() => onChoose(id)}>
            {shown}
          </button>
        ))}
      </div>
    </div>
  );
}

function Notifications() {
  const isOn = useSettings((state) => state.notifies);
  const [answer, setAnswer] = useState<Permission>("granted");
  const turn = async (wanted: boolean) => {
    if (wanted) setAnswer(await allowNotifications());
    else changeSettings({ notifies: false });
  };
  return (
    <>
      <div className="ll-settings-line">
        <label htmlFor="ll-settings-notify">{t("settings.notify")}</label>
        <span className="ll-switch">
          <input
            id="ll-settings-notify"
            type="checkbox"
            role="switch"
            checked={isOn}
            onChange={(event) => void turn(event.target.checked)}
          />
          <span className="ll-switch-track" aria-hidden="true" />
        </span>
      </div>
      {answer !== "granted" && !isOn && (
        <Notice kind="error">{t(answer === "denied" ? "settings.notify_denied" : "settings.notify_missing")}</Notice>
      )}
    </>
  );
}
