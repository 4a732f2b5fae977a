import { itemKey } from "../../graph/items";
import { isSub } from "../../graph/subs";
import { t } from "../../i18n";
import { IconButton } from "../../parts/IconButton";
import { Icon } from "../../parts/icons";
import { useTold } from "../../store/told";
import type { EditorNode, NodeSpec } from "../../types";
import { collapse, openMenuBeside, retitle } from "../commands/itemCommands";
import { goIn } from "../commands/subCommands";
import { TitleLine } from "../groups/TitleLine";
import { kindOf } from "../look";
import type { NodeView } from "./nodeView";
import { PROBLEM_ICONS, problemsOf, worstOf } from "./problemsOf";
import { SocketHandle } from "./SocketHandle";

interface NodeHeadProps {
  name: string;
  node: EditorNode;
  title: string;
  spec: NodeSpec | undefined;
  view: NodeView;
}

/** A node's title bar: its kind, title (double click edits it), mode, problems, fold, menu. */
export function NodeHead({ name, node, title, spec, view }: NodeHeadProps) {
  const problem = useTold((told) => problemsOf(told.problems, name, null));
  const kind = useTold((told) => worstOf(told.problems, name));
  const isFolded = node.collapsed ?? false;
  const { icon } = kindOf(spec);
  return (
    <div className="ll-node-head">
      {isFolded && <FoldedHandles view={view} />}
      <span className="ll-node-icon">
        <Icon name={icon} size={17} />
      </span>
      <span className="ll-node-title" title={about(spec, node)}>
        <TitleLine
          of={itemKey("node", name)}
          label={t("canvas.title_of_node")}
          value={title}
          onSettle={(text) => retitle(name, text)}
        />
      </span>
      {node.mode !== "run" && (
        <span className="ll-node-mode">
          <Icon name={node.mode === "mute" ? "mute" : "bypass"} size={13} />
          {t(node.mode === "mute" ? "canvas.muted" : "canvas.bypassed")}
        </span>
      )}
      {kind && (
        <span className={`ll-node-problem ll-problem-${kind}`} role="img" aria-label={problem} title={problem}>
          <Icon name={PROBLEM_ICONS[kind]} size={15} />
        </span>
      )}
      {isSub(node.type) && (
        <IconButton
          className="nodrag"
          icon="edit"
          size={13}
          label={t("canvas.sub_open_of", { node: title })}
          tabIndex={-1}
          onClick={() => goIn(name)}
        />
      )}
      <IconButton
        className="nodrag"
        icon={isFolded ? "chevron-right" : "chevron-down"}
        size={13}
        label={t(isFolded ? "canvas.unfold" : "canvas.fold")}
        aria-expanded={!isFolded}
        tabIndex={-1}
        onClick={() => collapse([name], !isFolded)}
      />
      <IconButton
        className="nodrag"
        icon="more"
        size={15}
        label={t("canvas.menu_of", { node: title })}
        tabIndex={-1}
        aria-haspopup="menu"
        onClick={(event) => openMenuBeside(event.currentTarget, { kind: "node", name })}
      />
    </div>
  );
}

/** Where the wires of a folded node end. */
function FoldedHandles({ view }: { view: NodeView }) {
  const inputs = [...view.sockets, ...view.fields, ...view.advanced].filter((input) => input.isLinked);
  return (
    <>
      {inputs.map(({ spec }) => (
        <SocketHandle key={spec.name} side="input" name={spec.name} type={spec.type} isLinked />
      ))}
      {view.outputs.map(({ spec }) => (
        <SocketHandle key={spec.name} side="output" name={spec.name} type={spec.type} isLinked />
      ))}
    </>
  );
}

function about(spec: NodeSpec | undefined, node: EditorNode): string {
  if (!spec) return t("canvas.unknown_type", { type: node.type });
  return spec.help ? `${spec.title}\n${spec.help}` : spec.title;
}
