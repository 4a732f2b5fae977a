import { asRead } from "../../exact";
import { nodeSpec, titleOf } from "../../graph/catalog";
import { own } from "../../graph/record";
import { isLink, isParamRef, plainValue, splitTarget } from "../../graph/values";
import { t } from "../../i18n";
import { spoken } from "../../parts/format";
import { useEditor } from "../../store/editor";
import type { Catalog, EditorGraph, InputSpec } from "../../types";

const SHOWN_LETTERS = 60;

/** What each input of a node gets, in words; inputs that have their default are left out. */
export function OutlineInputs({ name }: { name: string }) {
  const graph = useEditor((state) => state.graph);
  const catalog = useEditor((state) => state.catalog);
  const inputs = nodeSpec(graph, catalog, name)?.inputs ?? [];
  const lines = inputs.flatMap((spec) => {
    const words = inWords(graph, catalog, name, spec);
    return words ? [{ spec, words }] : [];
  });
  if (lines.length === 0) return null;
  return (
    <ul className="ll-outline-inputs" role="group">
      {lines.map(({ spec, words }) => (
        <li key={spec.name} role="none">
          <b>{spoken(spec.name)}</b> {words}
        </li>
      ))}
    </ul>
  );
}

function inWords(graph: EditorGraph, catalog: Catalog, name: string, spec: InputSpec): string {
  const value = own(graph.nodes[name]?.inputs ?? {}, spec.name);
  if (isLink(value)) {
    const [source, socket] = splitTarget(value.from);
    return t("canvas.from", { source: `${titleOf(graph, catalog, source)} · ${spoken(socket)}` });
  }
  if (value === undefined) return spec.required && spec.default === null ? t("canvas.not_given") : "";
  const plain = plainValue(graph, value);
  const text = plain === "" ? `""` : asRead(plain ?? null);
  const short = text.length > SHOWN_LETTERS ? `${text.slice(0, SHOWN_LETTERS)}…` : text;
  return isParamRef(value) ? `${t("canvas.param", { name: value.param })}: ${short}` : short;
}
