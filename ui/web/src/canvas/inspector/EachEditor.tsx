import { useId, useState } from "react";
import { nodeSpec } from "../../graph/catalog";
import { listFrom, shownList, type EachKind } from "../../graph/edits/each";
import { isLink } from "../../graph/values";
import { t } from "../../i18n";
import { spoken } from "../../parts/format";
import { useEditor } from "../../store/editor";
import { toast } from "../../store/page";
import { changeEach } from "../commands/subCommands";
import { TextBox } from "./TextBox";

const KINDS: readonly EachKind[] = ["lines", "range", "folder", "param"];
const TAKEN: readonly string[] = ["string", "int", "float", "choice"];

/** For-each: which input of a node goes through a list, and that list. */
export function EachEditor({ name }: { name: string }) {
  const id = useId();
  const graph = useEditor((state) => state.graph);
  const catalog = useEditor((state) => state.catalog);
  const node = graph.nodes[name];
  const inputs = nodeSpec(graph, catalog, name)?.inputs.filter((input) => TAKEN.includes(input.type)) ?? [];
  const [socket = "", list] = Object.entries(node?.each ?? {})[0] ?? [];
  const shown = list === undefined || isLink(list) ? null : shownList(list);
  const [wanted, setWanted] = useState<EachKind | null>(null);
  const kind = wanted ?? shown?.kind ?? "lines";
  if (!node || inputs.length === 0) return null;
  const typeOf = (input: string) => inputs.find((each) => each.name === input)?.type ?? "string";
  const settle = (input: string, text: string) => {
    const next = listFrom(kind, text, typeOf(input));
    if (next) changeEach(name, input, next);
    else toast({ kind: "error", text: t(`canvas.each_${kind}_wrong`) });
  };
  const choose = (input: string) => {
    if (socket) changeEach(name, socket, null);
    const value = node.inputs[input];
    const first =
      typeof value === "string" || typeof value === "number" ? [value] : [typeOf(input) === "string" ? "" : 1];
    if (input) changeEach(name, input, list ?? first);
  };
  return (
    <section className="ll-each" aria-label={t("canvas.each")}>
      <h3 className="ll-inspector-title">{t("canvas.each")}</h3>
      <p className="ll-inspector-help">{t("canvas.each_help")}</p>
      <label className="ll-each-line" htmlFor={`${id}-input`}>
        <span>{t("canvas.each_input")}</span>
        <select id={`${id}-input`} className="ll-input" value={socket} onChange={(event) => choose(event.target.value)}>
          <option value="">{t("canvas.each_none")}</option>
          {inputs.map((input) => (
            <option key={input.name} value={input.name}>
              {spoken(input.name)}
            </option>
          ))}
        </select>
      </label>
      {socket && (
        <>
          <label className="ll-each-line" htmlFor={`${id}-kind`}>
            <span>{t("canvas.each_list")}</span>
            <select
              id={`${id}-kind`}
              className="ll-input"
              value={kind}
              onChange={(event) => setWanted(event.target.value as EachKind)}
            >
              {KINDS.map((each) => (
                <option key={each} value={each}>
                  {t(`canvas.each_${each}`)}
                </option>
              ))}
            </select>
          </label>
          <TextBox
            id={`${id}-list`}
            label={t(`canvas.each_${kind}`)}
            help={t(`canvas.each_${kind}_help`)}
            value={shown && shown.kind === kind ? shown.text : ""}
            isLong={kind === "lines"}
            onSettle={(text) => text.trim() && settle(socket, text)}
          />
        </>
      )}
    </section>
  );
}
