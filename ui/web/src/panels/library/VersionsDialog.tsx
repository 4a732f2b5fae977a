import { useEffect, useState } from "react";
import { host, sentence } from "../../host";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { moment } from "../../parts/format";
import { Notice } from "../../parts/Notice";
import { Dialog } from "../../parts/overlays/Dialog";
import { Spinner } from "../../parts/Spinner";
import { useEditor } from "../../store/editor";
import { closeDialog } from "../../store/page";
import type { WorkflowVersion } from "../../types";
import { openWorkflow, restoreVersion } from "../files/fileActions";

/** A workflow of the library. */
export interface Named {
  id: string;
  name: string;
}

/** The saved versions of a workflow (of the open one by default): look at one, or make it the newest again. */
export function VersionsDialog({ of }: { of: Named | null }) {
  const open = useEditor((state) => state.workflow);
  const { id, name } = of ?? open ?? { id: "", name: "" };
  const [versions, setVersions] = useState<WorkflowVersion[] | null>(null);
  const [error, setError] = useState("");
  useEffect(() => {
    if (!id) return closeDialog();
    host.versions(id).then(
      (all) => setVersions([...all].sort((a, b) => b.version - a.version)),
      (cause: unknown) => setError(sentence(cause)),
    );
  }, [id]);
  const newest = versions?.[0]?.version;
  return (
    <Dialog title={t("panels.versions_title", { name })} onClose={closeDialog}>
      {error && <Notice kind="error">{error}</Notice>}
      {!versions && !error && <Spinner label={t("panels.reading")} isVisible />}
      <ol className="ll-versions">
        {versions?.map(({ version, time, num_nodes: count }) => (
          <li key={version} className="ll-version">
            <span className="ll-version-name">{t("panels.version", { version })}</span>
            <span className="ll-quiet">
              {moment(time)}, {t(count === 1 ? "panels.nodes_one" : "panels.nodes_other", { count })}
              {id === open?.id && version === open.version && `, ${t("panels.version_open")}`}
            </span>
            <Button kind="ghost" onClick={() => void openWorkflow(id, version)}>
              {t("panels.version_show", { version })}
            </Button>
            {version !== newest && (
              <Button onClick={() => void restoreVersion(id, version)}>
                {t("panels.version_restore", { version })}
              </Button>
            )}
          </li>
        ))}
      </ol>
    </Dialog>
  );
}
