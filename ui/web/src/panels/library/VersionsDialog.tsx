import { useEffect, useState } from "react";
import { DifferenceTable } from "../../gallery/compare/DifferenceTable";
import { differences, type Difference } from "../../graph/difference";
import { fromFile } from "../../graph/file/workflowFile";
import { host, sentence } from "../../host";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { moment } from "../../parts/format";
import { Notice } from "../../parts/Notice";
import { Dialog } from "../../parts/overlays/Dialog";
import { Spinner } from "../../parts/Spinner";
import { useEditor } from "../../store/editor";
import { closeDialog } from "../../store/page";
import type { EditorGraph, WorkflowVersion } from "../../types";
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
  const [looked, setLooked] = useState(0);
  useEffect(() => {
    if (!id) return closeDialog();
    host.versions(id).then(
      (all) => setVersions([...all].sort((a, b) => b.version - a.version)),
      (cause: unknown) => setError(sentence(cause)),
    );
  }, [id]);
  const newest = versions?.[0]?.version;
  return (
    <Dialog title={t("panels.versions_title", { name })} size="large" onClose={closeDialog}>
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
            <Button
              kind="ghost"
              aria-expanded={looked === version}
              onClick={() => setLooked(looked === version ? 0 : version)}
            >
              {t("panels.version_differs", { version })}
            </Button>
            <Button kind="ghost" onClick={() => void openWorkflow(id, version)}>
              {t("panels.version_show", { version })}
            </Button>
            {version !== newest && (
              <Button onClick={() => void restoreVersion(id, version)}>
                {t("panels.version_restore", { version })}
              </Button>
            )}
            {looked === version && <VersionDifference id={id} version={version} isOpen={id === open?.id} />}
          </li>
        ))}
      </ol>
    </Dialog>
  );
}

/** What a version changed of the one before it, and how the canvas differs from it where this workflow is open. */
function VersionDifference({ id, version, isOpen }: { id: string; version: number; isOpen: boolean }) {
  const canvas = useEditor((state) => state.whole);
  const catalog = useEditor((state) => state.catalog);
  const [graphs, setGraphs] = useState<{ own: EditorGraph; before: EditorGraph | null }>();
  const [error, setError] = useState("");
  useEffect(() => {
    const read = async () => {
      const [own, before] = await Promise.all([
        host.workflow(id, version),
        version > 1 ? host.workflow(id, version - 1).catch(() => null) : null,
      ]);
      setGraphs({ own: fromFile(own.graph), before: before && fromFile(before.graph) });
    };
    read().catch((cause: unknown) => setError(sentence(cause)));
  }, [id, version]);
  if (error) return <Notice kind="error">{error}</Notice>;
  if (!graphs) return <Spinner label={t("panels.reading")} isVisible />;
  const { own, before } = graphs;
  const name = t("panels.version", { version });
  return (
    <div className="ll-version-difference">
      {before && (
        <Rows
          rows={differences({ graph: before }, { graph: own }, catalog)}
          a={t("panels.version", { version: version - 1 })}
          b={name}
        />
      )}
      {isOpen && (
        <Rows rows={differences({ graph: own }, { graph: canvas }, catalog)} a={name} b={t("gallery.canvas")} />
      )}
    </div>
  );
}

function Rows({ rows, a, b }: { rows: readonly Difference[]; a: string; b: string }) {
  if (rows.length === 0) return <p className="ll-quiet">{t("panels.versions_alike", { a, b })}</p>;
  return <DifferenceTable rows={rows} a={a} b={b} />;
}
