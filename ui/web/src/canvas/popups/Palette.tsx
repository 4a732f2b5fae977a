import { useEffect, useState } from "react";
import { specOf } from "../../graph/catalog";
import { contains, keyAt } from "../../graph/inside";
import { SUB, specIn } from "../../graph/subs";
import { fitting, type Fit } from "../../graph/wireTypes";
import { host } from "../../host";
import { t, word } from "../../i18n";
import { openHelp } from "../../panels/help/openHelp";
import { IconButton } from "../../parts/IconButton";
import { Popover } from "../../parts/overlays/Popover";
import { toldTitle, useEditor } from "../../store/editor";
import type { Catalog, NodeSpec, Workflow } from "../../types";
import { closePopup, type Popup, type WireEnd } from "../canvasUi";
import { addComment, groupSelected } from "../commands/itemCommands";
import { PARTS, putPart } from "../commands/subCommands";
import { putNode } from "../commands/wireCommands";
import { noteUse, usedNodes } from "./nodeUse";
import { inUse, missingOf, otherWords } from "./nodeWords";
import { SearchList, type SearchItem } from "./SearchList";
import { spokenType } from "../../parts/format";

type PalettePopup = Extract<Popup, { kind: "palette" }>;

const LAST_USED = 4;

interface PaletteItem extends SearchItem {
  spec: NodeSpec | null;
  /** The workflow of the library that holds it. */
  part?: string;
}

/** The list of all nodes, or of those that fit the wire in hand. */
export function Palette({ popup }: { popup: PalettePopup }) {
  const catalog = useEditor((state) => state.catalog);
  const { wire, flow } = popup;
  const [used] = useState(usedNodes);
  const subs = useEditor((state) => state.graph.subs);
  const parts = useParts();
  const here = useEditor((state) => keyAt(state.whole, state.inside));
  const usable = Object.keys(subs).filter((name) => !here || !contains(subs, name, here));
  const own = usable.flatMap((name) => specIn(subs, catalog, SUB + name) ?? []);
  const items = wire
    ? fittingItems(catalog, wire, used)
    : [...own.map(nodeItem), ...parts.map(partItem), ...allItems(catalog, used)];
  const pick = (item: PaletteItem) => {
    closePopup();
    if (item.part) void putPart(item.part, flow);
    else if (item.spec) {
      noteUse(item.spec.id);
      putNode(item.spec.id, flow, wire);
    } else if (item.id === "$comment") addComment(flow);
    else groupSelected(flow);
  };
  const help = ({ spec }: PaletteItem) => {
    if (!spec) return;
    closePopup();
    openHelp(spec.id);
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
        onHelp={help}
        about={(item) => <About item={item} onHelp={() => help(item)} />}
        note={(query) => notHere(catalog, query)}
      />
    </Popover>
  );
}

function About({ item: { spec }, onHelp }: { item: PaletteItem; onHelp: () => void }) {
  if (!spec) return null;
  const list = (sockets: readonly { type: string }[]) =>
    [...new Set(sockets.map((socket) => spokenType(socket.type)))].join(", ");
  return (
    <>
      <IconButton icon="help" label={t("help.open_of", { node: spec.title })} onClick={onHelp} />
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
    also: otherWords(spec.id),
    group: spec.category === "subs" ? t("canvas.subs") : (word("category", spec.category) ?? spec.category),
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
