import type { ReactNode } from "react";
import { kindOf } from "../../canvas/look";
import { nearestTo, otherNames } from "../../canvas/popups/nodeWords";
import { nodeSpec } from "../../graph/catalog";
import { own } from "../../graph/record";
import { isSub, specIn } from "../../graph/subs";
import { t, word } from "../../i18n";
import { Button } from "../../parts/Button";
import { Icon } from "../../parts/icons";
import { Notice } from "../../parts/Notice";
import { Dialog } from "../../parts/overlays/Dialog";
import { Words } from "../../parts/Words";
import { useEditor } from "../../store/editor";
import { closeDialog } from "../../store/page";
import { useTold } from "../../store/told";
import type { Json, NodeSpec, NodeUse } from "../../types";
import { worded } from "../../worded";
import { Needed } from "../library/Needed";
import { titled } from "../../parts/format";
import { openAt, openTemplateAt, type HelpAsked } from "./openHelp";
import { Sockets } from "./Sockets";
import { useNodeUse } from "./useNodeUse";

const NOTHING: Readonly<Record<string, Json>> = {};

/** All there is to know of a node: what it does, takes and gives, what it is called elsewhere, and one at work. */
export function HelpDialog({ type, name = "" }: HelpAsked) {
  const spec = useEditor(
    ({ graph, catalog }) => (name && nodeSpec(graph, catalog, name)) || specIn(graph.subs, catalog, type),
  );
  const meant = useTold((told) => own(told.meant, name)) ?? NOTHING;
  const isOurs = spec !== undefined && !spec.origin && !isSub(type);
  const { use, error } = useNodeUse(isOurs ? type : "");
  if (!spec) {
    return (
      <Dialog title={type} onClose={closeDialog}>
        <p>{t("canvas.unknown_type", { type })}</p>
      </Dialog>
    );
  }
  return (
    <Dialog
      title={spec.title}
      size="large"
      onClose={closeDialog}
      footer={isOurs && !error && <Example use={use} title={spec.title} />}
    >
      <div className="ll-help">
        <Kind spec={spec} type={type} />
        <p className="ll-help-what">
          <Words text={spec.help} />
        </p>
        {spec.origin && <Notice>{t("help.outside", { origin: spec.origin })}</Notice>}
        {error && <Notice kind="error">{error}</Notice>}
        <Sockets inputs={spec.inputs} outputs={spec.outputs} meant={meant} />
        <Elsewhere type={type} />
        {use && use.templates.length > 0 && (
          <Part title={t("help.used_in")}>
            <div className="ll-help-list">
              {use.templates.map((id) => (
                <Button key={id} kind="ghost" onClick={() => void openTemplateAt(id, type)}>
                  {titled(id)}
                </Button>
              ))}
            </div>
          </Part>
        )}
      </div>
    </Dialog>
  );
}

/** In one line: its kind, and what is special about it. */
function Kind({ spec, type }: { spec: NodeSpec; type: string }) {
  const { icon, tone } = kindOf(spec);
  const facts = [
    isSub(type) ? t("canvas.subs") : (word("category", spec.category) ?? spec.category),
    spec.uses_device ? t("help.on_device") : "",
    spec.is_output ? t("help.acts") : "",
  ];
  return (
    <p className={`ll-help-kind ll-tone-${tone}`}>
      <Icon name={icon} size={20} />
      <span>{facts.filter(Boolean).join(" · ")}</span>
      {!isSub(type) && <code>{spec.id}</code>}
    </p>
  );
}

function Elsewhere({ type }: { type: string }) {
  const [names, nearest] = [otherNames(type), nearestTo(type)];
  if (names.length + nearest.length === 0) return null;
  return (
    <Part title={t("help.elsewhere")}>
      {names.length > 0 && <p>{names.join(", ")}</p>}
      {nearest.length > 0 && <p className="ll-quiet">{t("help.nearest", { what: nearest.join(", ") })}</p>}
    </Part>
  );
}

/** What the example shows, what it needs, and the way to it. */
function Example({ use, title }: { use: NodeUse | null; title: string }) {
  const example = use?.example;
  return (
    <>
      {example && use && (
        <div className="ll-help-example">
          <p>
            <Words text={worded(example.description)} />
          </p>
          <Needed needs={use.needs ?? undefined} />
        </div>
      )}
      <Button
        kind="primary"
        icon="file"
        isBusy={!use}
        aria-label={t("help.open_example_of", { node: title })}
        onClick={() => example && void openAt(example, use.node)}
      >
        {t("help.open_example")}
      </Button>
    </>
  );
}

function Part({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section>
      <h3>{title}</h3>
      {children}
    </section>
  );
}
