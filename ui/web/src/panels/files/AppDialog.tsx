import { useEffect, useState } from "react";
import { host, sentence } from "../../host";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { CopyButton } from "../../parts/CopyButton";
import { moment } from "../../parts/format";
import { Notice } from "../../parts/Notice";
import { Dialog } from "../../parts/overlays/Dialog";
import { Spinner } from "../../parts/Spinner";
import { appLink } from "../../store/links";
import { useEditor } from "../../store/editor";
import { closeDialog, confirm } from "../../store/page";
import type { App } from "../../types";

/** The open workflow as an app: published, brought to the newest version, taken back; and the others that were given. */
export function AppDialog() {
  const workflow = useEditor((state) => state.workflow);
  const isDirty = useEditor((state) => state.isDirty);
  const { apps, error, isBusy, publish, revoke } = useApps();
  const own = apps?.find((app) => app.workflow_id === workflow?.id);
  const others = apps?.filter((app) => app !== own) ?? [];
  return (
    <Dialog title={t("panels.app_title")} description={t("panels.app_text")} onClose={closeDialog}>
      <div className="ll-app-dialog">
        <p>{t("panels.app_no_secret")}</p>
        {error && <Notice kind="error">{error}</Notice>}
        {!apps && !error && <Spinner label={t("panels.reading")} isVisible />}
        {apps && !workflow && <Notice>{t("panels.app_save_first")}</Notice>}
        {apps && workflow && isDirty && <Notice>{t("panels.app_dirty")}</Notice>}
        {apps && workflow && !own && (
          <Button kind="primary" icon="share" isBusy={isBusy} onClick={() => void publish(workflow)}>
            {t("panels.app_publish", { version: workflow.version })}
          </Button>
        )}
        {own && (
          <>
            <AppLink app={own} onRevoke={() => void revoke(own)} />
            {own.newest > own.version && (
              <Button
                kind="primary"
                icon="share"
                isBusy={isBusy}
                onClick={() => void publish({ id: own.workflow_id, version: own.newest })}
              >
                {t("panels.app_renew", { version: own.newest })}
              </Button>
            )}
          </>
        )}
        {others.length > 0 && (
          <section className="ll-app-links" aria-labelledby="ll-app-links">
            <h3 id="ll-app-links">{t("panels.app_others")}</h3>
            {others.map((app) => (
              <AppLink key={app.token} app={app} onRevoke={() => void revoke(app)} />
            ))}
          </section>
        )}
      </div>
    </Dialog>
  );
}

/** One link that was given, to be copied or taken back. */
function AppLink({ app, onRevoke }: { app: App; onRevoke: () => void }) {
  const { name, version, published } = app;
  const link = appLink(app.token);
  return (
    <div className="ll-app-link" role="group" aria-label={name}>
      <div className="ll-app-link-head">
        <strong>{name}</strong>
        <span className="ll-quiet">{t("panels.app_runs", { version, time: moment(published) })}</span>
      </div>
      <div className="ll-share">
        <input
          className="ll-input"
          readOnly
          value={link}
          aria-label={t("panels.app_link", { name })}
          onFocus={(event) => event.target.select()}
        />
        <CopyButton text={link} label={t("panels.share_copy")} />
        <Button kind="danger" icon="trash" aria-label={t("panels.app_revoke_of", { name })} onClick={onRevoke}>
          {t("panels.app_revoke")}
        </Button>
      </div>
    </div>
  );
}

function useApps() {
  const [apps, setApps] = useState<readonly App[] | null>(null);
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  const read = async () => setApps(await host.apps());
  const doing = async (work: () => Promise<unknown>) => {
    setBusy(true);
    setError("");
    try {
      await work();
      await read();
    } catch (reason) {
      setError(sentence(reason));
    } finally {
      setBusy(false);
    }
  };
  useEffect(() => void doing(async () => undefined), []);
  return {
    apps,
    error,
    isBusy,
    publish: ({ id, version }: { id: string; version: number }) => doing(() => host.publishApp(id, version)),
    revoke: async ({ workflow_id, name }: App) => {
      if (await confirm(t("panels.app_revoke_question", { name }), t("panels.app_revoke")))
        await doing(() => host.revokeApp(workflow_id));
    },
  };
}
