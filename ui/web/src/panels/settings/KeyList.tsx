import { useEffect, useRef, useState, type KeyboardEvent } from "react";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { IconButton } from "../../parts/IconButton";
import { Notice } from "../../parts/Notice";
import { ALL_USUAL, BINDINGS, chooseKeys, combination, refusalOf, type Usual } from "../../store/keyBindings";
import { changeSettings, useSettings } from "../../store/settings";
import { keysShown, keysText } from "../pageShortcuts";

/** The keys of everything that has some, each to be changed: press its button, then the new keys. */
export function KeyList() {
  const keys = useSettings((state) => state.keys);
  const [waiting, setWaiting] = useState<Usual | null>(null);
  const [refusal, setRefusal] = useState("");
  const take = (usual: Usual, pressed: string) => {
    const refused = refusalOf(usual, pressed);
    const shown = keysShown(pressed);
    if (refused?.kind === "fixed") setRefusal(t("settings.keys_fixed", { keys: shown }));
    else if (refused) setRefusal(t("settings.keys_taken", { keys: shown, what: t(BINDINGS[refused.by]) }));
    else {
      chooseKeys(usual, pressed);
      setRefusal("");
      setWaiting(null);
    }
  };
  return (
    <section className="ll-settings-keys">
      <header>
        <h3>{t("panels.shortcuts")}</h3>
        {Object.keys(keys).length > 0 && (
          <Button kind="ghost" icon="undo" onClick={() => changeSettings({ keys: {} })}>
            {t("settings.keys_reset_all")}
          </Button>
        )}
      </header>
      <ul>
        {ALL_USUAL.map((usual) => {
          const what = t(BINDINGS[usual]);
          return (
            <li key={usual}>
              <span>{what}</span>
              {keys[usual] !== undefined && (
                <IconButton
                  icon="undo"
                  label={t("settings.keys_reset", { what })}
                  onClick={() => {
                    const refused = refusalOf(usual, usual);
                    if (refused) take(usual, usual);
                    else chooseKeys(usual, usual);
                  }}
                />
              )}
              <KeyButton
                label={t("settings.keys_of", { what, keys: keysText(usual) })}
                shown={keysText(usual)}
                isWaiting={waiting === usual}
                onWait={(waits) => {
                  setWaiting(waits ? usual : null);
                  setRefusal("");
                }}
                onKeys={(pressed) => take(usual, pressed)}
              />
            </li>
          );
        })}
      </ul>
      <div className="ll-settings-refusal" role="status">
        {refusal && <Notice kind="error">{refusal}</Notice>}
      </div>
    </section>
  );
}

interface KeyButtonProps {
  label: string;
  shown: string;
  isWaiting: boolean;
  onWait: (waits: boolean) => void;
  onKeys: (keys: string) => void;
}

function KeyButton({ label, shown, isWaiting, onWait, onKeys }: KeyButtonProps) {
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (isWaiting) button.current?.focus(); // some browsers do not focus what is clicked
  }, [isWaiting]);
  const onKeyDown = (event: KeyboardEvent) => {
    if (!isWaiting || event.key === "Tab") return;
    event.preventDefault();
    event.stopPropagation();
    const keys = combination(event.nativeEvent);
    if (event.key === "Escape") onWait(false);
    else if (keys) onKeys(keys);
  };
  return (
    <button
      ref={button}
      type="button"
      className="ll-key-button"
      aria-label={isWaiting ? t("settings.keys_press") : label}
      aria-pressed={isWaiting}
      onClick={() => onWait(!isWaiting)}
      onBlur={() => isWaiting && onWait(false)}
      onKeyDown={onKeyDown}
    >
      <kbd>{isWaiting ? t("settings.keys_press") : shown}</kbd>
    </button>
  );
}
