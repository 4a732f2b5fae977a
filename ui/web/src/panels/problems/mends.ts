/** What mends a problem by values: in words, and as one edit of the workflow. */

import { asRead } from "../../exact";
import { titleOf } from "../../graph/catalog";
import { giveValue } from "../../graph/edits";
import { has, own } from "../../graph/record";
import { isLink, splitTarget } from "../../graph/values";
import { t } from "../../i18n";
import { spoken } from "../../parts/format";
import { editWhole, editorStore } from "../../store/editor";
import type { Catalog, EditorGraph, Json } from "../../types";

/** Values by "node.socket". */
export type Mend = Readonly<Record<string, Json>>;

/** Those that only set values: what a wire brings is not mended by cutting it. */
export function mendsFor(graph: EditorGraph, mends: readonly Mend[]): Mend[] {
  const isOpen = (target: string) => {
    const [node, socket] = splitTarget(target);
    return has(graph.nodes, node) && !isLink(own(graph.nodes[node]!.inputs, socket));
  };
  return mends.filter((mend) => Object.keys(mend).length > 0 && Object.keys(mend).every(isOpen));
}

/** "Use 96 x 80", "Use quantization int8", "Use plan ulysses=2 in Denoise" where the problem is of another node. */
export function mendText(graph: EditorGraph, catalog: Catalog, mend: Mend, of: string): string {
  const values = Object.entries(mend).map(([target, value]) => ({ at: splitTarget(target), value }));
  const [width, height] = ["width", "height"].map((name) => values.find(({ at }) => at[1] === name));
  const others = values.filter((value) => value !== width && value !== height);
  const size = width && height ? [sizeText(width.value, height.value)] : [];
  const rest = width && height ? others : values;
  const what = [...size, ...rest.map(({ at, value }) => valueText(at[1], value))].join(", ");
  const nodes = new Set(values.map(({ at }) => at[0]));
  if (nodes.size !== 1 || nodes.has(of)) return t("panels.mend", { what });
  return t("panels.mend_in", { what, node: titleOf(graph, catalog, [...nodes][0]!) });
}

/** One step that undo takes back; the workflow is checked again by itself. */
export function applyMend(mend: Mend): void {
  const { whole: graph, catalog } = editorStore.getState();
  const label = mendText(graph, catalog, mend, "");
  editWhole(label, (last) =>
    Object.entries(mend).reduce((changed, [target, value]) => giveValue(changed, ...splitTarget(target), value), last),
  );
}

function sizeText(width: Json, height: Json): string {
  return isOwn(width) && isOwn(height) ? t("panels.mend_own_size") : `${asRead(width)} × ${asRead(height)}`;
}

function valueText(socket: string, value: Json): string {
  return isOwn(value) ? t("panels.mend_own", { name: spoken(socket) }) : `${spoken(socket)} ${asRead(value)}`;
}

/** 0 and empty mean the model's own. */
function isOwn(value: Json): boolean {
  return value === "" || value === 0;
}
