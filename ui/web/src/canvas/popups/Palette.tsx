import { useEffect, useState } from "react";
import { specOf } from "../../graph/catalog";
import { SUB, specIn } from "../../graph/subs";
import { fitting } from "../../graph/wireTypes";
import { host } from "../../host";
import { t, word } from "../../i18n";
import { Popover } from "../../parts/overlays/Popover";
import { toldTitle, useEditor } from "../../store/editor";
import type { Catalog, NodeSpec, Workflow } from "../../types";
import { closePopup, type Popup, type WireEnd } from "../canvasUi";
import { addComment, groupSelected } from "../commands/itemCommands";
import { PARTS, putPart } from "../commands/subCommands";
import { putNode } from "../commands/wireCommands";
import { SearchList, type SearchItem } from "./SearchList";
import { spokenType } from "../../parts/format";

type PalettePopup = Extract<Popup, { kind: "palette" }>;

interface PaletteItem extends SearchItem {
  spec: NodeSpec | null;
  /** The workflow of the library that holds it. */
  part?: string;
}

/** The list of all nodes, or of those that fit the wire in hand. */
export function Palette({ popup }: { popup: PalettePopup }) {
  const catalog = useEditor((state) => state.catalog);
  const { wire, flow } = popup;
  const subs = useEditor((state) => state.graph.subs);
  const parts = useParts();
  const own = Object.keys(subs).flatMap((name) => specIn(subs, catalog, SUB + name) ?? []);
  const items = wire
    ? fittingItems(catalog, wire)
    : [...own.map(nodeItem), ...parts.map(partItem), ...catalog.nodes.map(nodeItem), ...frameItems()];
  const pick = (item: PaletteItem) => {
    closePopup();
    if (item.part) void putPart(item.part, flow);
    else if (item.spec) putNode(item.spec.id, flow, wire);
    else if (item.id === "$comment") addComment(flow);
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
        placeholder={wire ? t("canvas.search_fitting", { type: spokenType(wire.type) }) : t("canvas.search_nodes")}
        items={items}
        onPick={pick}
        onClose={closePopup}
        about={(item) => <About item={item} />}
      />
    </Popover>
  );
}

function About({ item: { spec } }: { item: PaletteItem }) {
  if (!spec) return null;
  const list = (sockets: readonly { type: string }[]) =>
    [...new Set(sockets.map((socket) => spokenType(socket.type)))].join(", ");
  return (
    <>
      <p>{spec.help || spec.title}</p>
      <p className="ll-search-types">
        {list(spec.inputs) || t("canvas.no_sockets")} → {list(spec.outputs) || t("canvas.no_sockets")}
      </p>
    </>
  );
}

function partItem({ id, name, summary }: Workflow): PaletteItem {
  const more = `${summary} part sub-workflow`;
  return { id: `$part-${id}`, label: name, more, group: t("canvas.parts"), spec: null, part: id };
}

/** The parts that the user has published; none until the server has answered. */
function useParts(): readonly Workflow[] {
  const [parts, setParts] = useState<readonly Workflow[]>([]);
  useEffect(() => {
    let isCurrent = true;
    host.workflows().then(
      (all) => isCurrent && setParts(all.filter((workflow) => workflow.folder === PARTS)),
      () => undefined,
    );
    return () => {
      isCurrent = false;
    };
  }, []);
  return parts;
}

function nodeItem(spec: NodeSpec): PaletteItem {
  const [output] = spec.outputs;
  return {
    id: spec.id,
    label: spec.title,
    more: `${spec.id} ${toldTitle(spec.id)} ${spec.category} ${spec.help}`,
    group: spec.category === "subs" ? t("canvas.subs") : (word("category", spec.category) ?? spec.category),
    type: output?.type ?? "",
    spec,
  };
}

function fittingItems(catalog: Catalog, wire: WireEnd): PaletteItem[] {
  return fitting(catalog, wire).flatMap(({ spec: { id }, socket }) => {
    const spec = specOf(catalog, id);
    return spec ? [{ ...nodeItem(spec), hint: socket }] : [];
  });
}

/** What is no node but lies on the canvas too. */
function frameItems(): PaletteItem[] {
  const group = t("canvas.layout");
  return [
    { id: "$comment", label: t("canvas.comment"), more: "comment note", group, spec: null },
    { id: "$group", label: t("canvas.group"), more: "group frame", group, spec: null },
  ];
}
