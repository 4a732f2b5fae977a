import { useState } from "react";
import { specOf } from "../../graph/catalog";
import { fitting, type Fit } from "../../graph/wireTypes";
import { t } from "../../i18n";
import { Popover } from "../../parts/overlays/Popover";
import { useEditor } from "../../store/editor";
import type { Catalog, NodeSpec } from "../../types";
import { closePopup, type Popup, type WireEnd } from "../canvasUi";
import { addComment, groupSelected } from "../commands/itemCommands";
import { putNode } from "../commands/wireCommands";
import { noteUse, usedNodes } from "./nodeUse";
import { inUse, missingOf, otherWords } from "./nodeWords";
import { SearchList, type SearchItem } from "./SearchList";

type PalettePopup = Extract<Popup, { kind: "palette" }>;

const LAST_USED = 4;

interface PaletteItem extends SearchItem {
  spec: NodeSpec | null;
}

/** The list of all nodes, or of those that fit the wire in hand. */
export function Palette({ popup }: { popup: PalettePopup }) {
  const catalog = useEditor((state) => state.catalog);
  const { wire, flow } = popup;
  const [used] = useState(usedNodes);
  const items = wire ? fittingItems(catalog, wire, used) : allItems(catalog, used);
  const pick = (item: PaletteItem) => {
    closePopup();
    if (item.spec) {
      noteUse(item.spec.id);
      putNode(item.spec.id, flow, wire);
    } else if (item.id === "$comment") addComment(flow);
    else groupSelected(flow);
  };
  return (
    <Popover
      anchor={popup}
      onDismiss={closePopup}
      className="ll-palette"
      role="dialog"
      aria-label={t("canvas.palette")}
    >
      <SearchList
        label={t("canvas.palette")}
        placeholder={wire ? t("canvas.search_fitting", { type: wire.type }) : t("canvas.search_nodes")}
        items={items}
        onPick={pick}
        onClose={closePopup}
        about={(item) => <About item={item} />}
        note={(query) => notHere(catalog, query)}
      />
    </Popover>
  );
}

function About({ item: { spec } }: { item: PaletteItem }) {
  if (!spec) return null;
  const list = (sockets: readonly { type: string }[]) => [...new Set(sockets.map((socket) => socket.type))].join(", ");
  return (
    <>
      <p>{spec.help || spec.title}</p>
      <p className="ll-search-types">
        {list(spec.inputs) || t("canvas.no_sockets")} → {list(spec.outputs) || t("canvas.no_sockets")}
      </p>
    </>
  );
}

function nodeItem(spec: NodeSpec): PaletteItem {
  const [output] = spec.outputs;
  return {
    id: spec.id,
    label: spec.title,
    more: `${spec.id} ${spec.category} ${spec.help}`,
    also: otherWords(spec.id),
    group: spec.category,
    type: output?.type ?? "",
    spec,
  };
}

/** What was used last, then all of them by category. */
function allItems(catalog: Catalog, used: readonly string[]): PaletteItem[] {
  const last = used.slice(0, LAST_USED).flatMap((type) => specOf(catalog, type) ?? []);
  const others = inUse(
    catalog.nodes.filter((spec) => !last.includes(spec)).map((spec) => ({ spec })),
    used,
  );
  const group = t("canvas.used_last");
  return [
    ...last.map((spec) => ({ ...nodeItem(spec), group })),
    ...others.map(({ spec }) => nodeItem(spec)),
    ...frameItems(),
  ];
}

/** In one list, the best first: one that needs such a wire before one that takes it. */
function fittingItems(catalog: Catalog, wire: WireEnd, used: readonly string[]): PaletteItem[] {
  const fits = fitting(catalog, wire).map((found) => ({ ...found, fit: fitOf(found, wire) }));
  const group = t("canvas.fits", { type: wire.type });
  return inUse(fits, used).map(({ spec, socket }) => ({ ...nodeItem(spec), group, hint: socket }));
}

function fitOf({ spec, socket }: Fit, { type, side }: WireEnd): number {
  const input = spec.inputs.find(({ name }) => name === socket);
  const given = side === "output" ? input?.type : spec.outputs.find(({ name }) => name === socket)?.type;
  const isNeeded = side === "input" || (input?.required ?? false);
  const isAddOn = side === "output" && spec.outputs.some((output) => output.type === type);
  return (given === type ? 4 : 0) + (isNeeded ? 2 : 0) + (isAddOn ? 0 : 1);
}

/** Honest about what other tools have and this one has not. */
function notHere(catalog: Catalog, query: string): string {
  const missing = missingOf(query);
  if (!missing) return "";
  const nodes = missing.nearest.flatMap((type) => specOf(catalog, type)?.title ?? []).join(", ");
  return t("canvas.not_here", { what: missing.what, nodes });
}

/** What is no node but lies on the canvas too. */
function frameItems(): PaletteItem[] {
  const group = t("canvas.layout");
  return [
    { id: "$comment", label: t("canvas.comment"), more: "comment note", group, spec: null },
    { id: "$group", label: t("canvas.group"), more: "group frame", group, spec: null },
  ];
}
