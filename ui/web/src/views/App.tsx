import { useEffect, useState } from "react";
import { host, sentence } from "../host";
import { t } from "../i18n";
import { Button } from "../parts/Button";
import { titled } from "../parts/format";
import { Notice } from "../parts/Notice";
import { Spinner } from "../parts/Spinner";
import { Words } from "../parts/Words";
import { AppMaker } from "../simple/app/AppMaker";
import { openedApp } from "../store/links";
import { usePage } from "../store/page";
import { logOut } from "../store/start";
import { keepTitle } from "../store/tabTitle";
import type { AppForm } from "../types";
import { worded } from "../worded";

/** An app that somebody shared, by itself: its form, how far its run is, and what came of it. */
export function App() {
  const token = openedApp();
  const [app, setApp] = useState<AppForm | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    host.app(token).then(setApp, (reason: unknown) => setError(sentence(reason)));
  }, [token]);
  useEffect(() => (app ? keepTitle(() => app.name) : undefined), [app]);
  return (
    <main className="ll-simple ll-app" aria-label={t("simple.app")}>
      {error && <Notice kind="error">{error}</Notice>}
      {!app && !error && <Spinner label={t("simple.app_reading")} isVisible />}
      {app && (
        <>
          <header className="ll-app-head">
            <h2>{titled(app.name)}</h2>
            {app.description && (
              <p className="ll-simple-about">
                <Words text={worded(app.description)} />
              </p>
            )}
          </header>
          <AppMaker token={token} app={app} />
        </>
      )}
      <Guest />
    </main>
  );
}

/** As whom all that is made counts. */
function Guest() {
  const me = usePage((state) => state.me);
  if (!me?.has_auth) return null;
  return (
    <footer className="ll-app-guest">
      <span className="ll-hint">{t("simple.app_user", { user: me.user })}</span>
      <Button kind="ghost" icon="lock" onClick={() => void logOut()}>
        {t("simple.app_log_out")}
      </Button>
    </footer>
  );
}
