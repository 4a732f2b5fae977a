import { titleOf } from "../../graph/catalog";
import { canExpose } from "../../graph/edits/params";
import { own } from "../../graph/record";
import { splitTarget } from "../../graph/values";
import { t } from "../../i18n";
import { spoken, spokenType } from "../../parts/format";
import { IconButton } from "../../parts/IconButton";
import { useEditor } from "../../store/editor";
import { useTold } from "../../store/told";
import { Field, hasWidget } from "../../widgets/Field";
import { TokenCount } from "../../widgets/TokenCount";
import { focusNode } from "../commands/focusItem";
import { expose, setParamValue, setValue, unexpose } from "../commands/valueCommands";
import { unlink } from "../commands/wireCommands";
import { problemsOf } from "../nodes/problemsOf";
import type { CommonInput } from "./commonInputs";

/** One input of the selected nodes: its field, or where its wire comes from; and whether it is a param. */
export function InputEditor({ names, input }: { names: readonly string[]; input: CommonInput }) {
  const { spec, from, param, isMixed, value } = input;
  const [name = ""] = names;
  const meant = useTold((told) => own(own(told.meant, name) ?? {}, spec.name));
  const tokens = useTold((told) => own(own(told.tokens, name) ?? {}, spec.name));
  const isOne = names.length === 1;
  const isInside = useEditor((state) => state.inside.length > 0);
  const problem = useTold((told) => problemsOf(told.problems, name, spec.name));
  if (from) return <Linked names={names} input={input} />;
  if (!hasWidget(spec)) {
    return (
      <div className="ll-panel-input ll-panel-free">
        <span>{spoken(spec.name)}</span>
        <span>
          {param
            ? t("canvas.sub_input", { name: spoken(param) })
            : t("canvas.takes_wire", { type: spokenType(spec.type) })}
        </span>
        {isOne && isInside && (
          <IconButton
            icon={param ? "unlock" : "settings"}
            label={param ? t("canvas.unexpose", { name: param }) : t("canvas.expose", { name: spoken(spec.name) })}
            isPressed={param !== ""}
            onClick={() => (param ? unexpose(param) : expose(name, spec))}
          />
        )}
      </div>
    );
  }
  const isParam = param !== "";
  return (
    <div className="ll-panel-input">
      <Field
        spec={spec}
        id={`ll-in-${spec.name}`}
        value={value}
        meant={isOne ? meant : undefined}
        tokens={isOne ? tokens : undefined}
        label={isParam ? `${spoken(spec.name)} (${t("canvas.param", { name: param })})` : undefined}
        placeholder={isMixed ? t("canvas.mixed") : undefined}
        problem={isOne ? problem || undefined : undefined}
        seedKey={isParam ? `$${param}` : isOne ? `${name}.${spec.name}` : undefined}
        place={isOne ? `${name}.${spec.name}` : undefined}
        onChange={(next, { commit }) =>
          isParam && isOne ? setParamValue(param, next, commit) : setValue(names, spec.name, next, commit)
        }
      />
      {isOne && canExpose(spec) && (
        <IconButton
          icon={isParam ? "unlock" : "settings"}
          label={isParam ? t("canvas.unexpose", { name: param }) : t("canvas.expose", { name: spoken(spec.name) })}
          isPressed={isParam}
          onClick={() => (isParam ? unexpose(param) : expose(name, spec))}
        />
      )}
    </div>
  );
}

function Linked({ names, input: { spec, from } }: { names: readonly string[]; input: CommonInput }) {
  const tokens = useTold((told) => own(own(told.tokens, names[0] ?? "") ?? {}, spec.name));
  const [source, socket] = splitTarget(from);
  const title = useEditor((state) => titleOf(state.graph, state.catalog, source));
  return (
    <div className="ll-panel-input ll-panel-free">
      <span>{spoken(spec.name)}</span>
      <button type="button" className="ll-panel-source" onClick={() => focusNode(source)}>
        {t("canvas.from", { source: `${title} · ${spoken(socket)}` })}
      </button>
      {tokens && names.length === 1 && <TokenCount id={`ll-in-${spec.name}-tokens`} counts={tokens} compact={false} />}
      <IconButton
        icon="close"
        label={t("canvas.disconnect_socket", { name: spoken(spec.name) })}
        onClick={() => names.forEach((name) => unlink(`${name}.${spec.name}`))}
      />
    </div>
  );
}
