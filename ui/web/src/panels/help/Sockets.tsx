import { lookOf } from "../../canvas/look";
import { TypeDot } from "../../canvas/nodes/TypeDot";
import { own } from "../../graph/record";
import { t } from "../../i18n";
import { spoken, spokenType } from "../../parts/format";
import { Words } from "../../parts/Words";
import type { InputSpec, Json, OutputSpec } from "../../types";
import { socketFacts } from "./socketFacts";

interface SocketsProps {
  inputs: readonly InputSpec[];
  outputs: readonly OutputSpec[];
  /** What values on the canvas that stand for something else will be. */
  meant: Readonly<Record<string, Json>>;
}

/** What a node takes and gives: of each its type, its help and its facts. */
export function Sockets({ inputs, outputs, meant }: SocketsProps) {
  return (
    <>
      {inputs.length > 0 && (
        <section>
          <h3>{t("canvas.inputs")}</h3>
          <dl className="ll-help-sockets">
            {inputs.map((input) => (
              <Socket key={input.name} socket={input} facts={socketFacts(input, own(meant, input.name))} />
            ))}
          </dl>
        </section>
      )}
      {outputs.length > 0 && (
        <section>
          <h3>{t("canvas.outputs")}</h3>
          <dl className="ll-help-sockets">
            {outputs.map((output) => (
              <Socket key={output.name} socket={output} facts={[]} />
            ))}
          </dl>
        </section>
      )}
    </>
  );
}

function Socket({ socket: { name, type, help }, facts }: { socket: OutputSpec; facts: readonly string[] }) {
  return (
    <div>
      <dt>
        <span className={`ll-tone-${lookOf(type).tone} ll-search-dot`} aria-hidden="true">
          <TypeDot type={type} isLinked />
        </span>
        <strong>{spoken(name)}</strong>
        <span className="ll-quiet">{spokenType(type)}</span>
      </dt>
      <dd>
        {help && (
          <p>
            <Words text={help} />
          </p>
        )}
        {facts.length > 0 && <p className="ll-quiet">{facts.join(" · ")}</p>}
      </dd>
    </div>
  );
}
