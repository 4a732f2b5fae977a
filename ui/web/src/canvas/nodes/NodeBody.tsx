import { isParamRef } from "../../graph/values";
import { t } from "../../i18n";
import { spoken } from "../../parts/format";
import { Icon } from "../../parts/icons";
import type { EditorNode, NodeSpec } from "../../types";
import { FieldRow } from "./FieldRow";
import type { InputView, NodeView, OutputView } from "./nodeView";
import { useOpenAdvanced, toggleAdvanced } from "./openAdvanced";
import { Required } from "./Required";
import { SocketHandle } from "./SocketHandle";

interface NodeBodyProps {
  name: string;
  node: EditorNode;
  spec: NodeSpec | undefined;
  view: NodeView;
}

/** Under a node's title bar: its sockets, then its fields, then the folded advanced ones. */
export function NodeBody({ name, node, spec, view }: NodeBodyProps) {
  const isOpen = useOpenAdvanced(name);
  const hasSockets = view.sockets.length > 0 || view.outputs.length > 0;
  return (
    <div className="ll-node-body">
      {!spec && <p className="ll-node-unknown-note">{t("canvas.unknown_type", { type: node.type })}</p>}
      {hasSockets && (
        <div className="ll-sockets">
          <ul>
            {view.sockets.map((input) => (
              <Socket key={input.spec.name} input={input} />
            ))}
          </ul>
          <ul className="ll-sockets-out">
            {view.outputs.map((output) => (
              <Output key={output.spec.name} output={output} />
            ))}
          </ul>
        </div>
      )}
      {view.fields.map((input) => (
        <FieldRow key={input.spec.name} node={name} input={input} />
      ))}
      {view.numAdvanced > 0 && (
        <button
          type="button"
          className="ll-advanced nodrag"
          aria-expanded={isOpen}
          tabIndex={-1}
          onClick={() => toggleAdvanced(name)}
        >
          <Icon name={isOpen ? "chevron-down" : "chevron-right"} size={12} />
          {isOpen ? t("canvas.advanced") : t("canvas.advanced_folded", { n: view.numFolded })}
        </button>
      )}
      {view.advanced.map((input) => (
        <FieldRow key={input.spec.name} node={name} input={input} />
      ))}
    </div>
  );
}

function Socket({ input: { spec, value, isLinked } }: { input: InputView }) {
  const param = isParamRef(value) ? value.param : "";
  const isMissing = spec.required && !isLinked && !param;
  return (
    <li className={`ll-socket ${isMissing ? "ll-socket-missing" : ""}`} title={spec.help || undefined}>
      <SocketHandle
        side="input"
        name={spec.name}
        type={spec.type}
        help={spec.help}
        isRequired={spec.required}
        isLinked={isLinked}
      />
      <span>{spoken(spec.name)}</span>
      {spec.required && !param && <Required />}
      {param && (
        <em className="ll-socket-param" title={t("canvas.sub_input_help", { name: spoken(param) })}>
          {param === spec.name ? t("canvas.sub_outside") : t("canvas.sub_input", { name: spoken(param) })}
        </em>
      )}
    </li>
  );
}

function Output({ output: { spec, isLinked } }: { output: OutputView }) {
  return (
    <li className="ll-socket" title={spec.help || undefined}>
      <span>{spoken(spec.name)}</span>
      <SocketHandle side="output" name={spec.name} type={spec.type} help={spec.help} isLinked={isLinked} />
    </li>
  );
}
