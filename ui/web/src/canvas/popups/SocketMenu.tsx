import { useState } from "react";
import { nodeSpec, titleOf } from "../../graph/catalog";
import { isLink, splitTarget } from "../../graph/values";
import { t } from "../../i18n";
import { spoken, spokenType } from "../../parts/format";
import { Popover } from "../../parts/overlays/Popover";
import { editorStore, useEditor } from "../../store/editor";
import { closePopup, onCanvas, openPopup, type Popup, type WireEnd } from "../canvasUi";
import { focusNode } from "../commands/focusItem";
import { below } from "../commands/freePlace";
import { endsFor, link, unlink } from "../commands/wireCommands";
import { SearchList, type SearchItem } from "./SearchList";

type SocketsPopup = Extract<Popup, { kind: "sockets" }>;

/** Wiring without a pointer: choose a socket of the node, then the end that its wire goes to. */
export function SocketMenu({ popup }: { popup: SocketsPopup }) {
  const [wire, setWire] = useState<WireEnd | null>(null);
  const leave = () => {
    closePopup();
    focusNode(popup.node);
  };
  return (
    <Popover anchor={popup} onDismiss={closePopup} className="ll-palette" role="dialog" aria-label={t("canvas.wiring")}>
      {wire ? (
        <Ends wire={wire} popup={popup} onBack={() => setWire(null)} onLeave={leave} />
      ) : (
        <Sockets node={popup.node} onPick={setWire} onLeave={leave} />
      )}
    </Popover>
  );
}

interface SocketItem extends SearchItem {
  wire: WireEnd;
}

function Sockets({ node, onPick, onLeave }: { node: string; onPick: (wire: WireEnd) => void; onLeave: () => void }) {
  const { graph, catalog } = useEditor((state) => state);
  const found = graph.nodes[node];
  const spec = nodeSpec(graph, catalog, node);
  const item = (side: "input" | "output", socket: { name: string; type: string }): SocketItem => {
    const value = side === "input" ? found?.inputs[socket.name] : undefined;
    return {
      id: `${side}-${socket.name}`,
      label: spoken(socket.name),
      more: socket.type,
      group: t(side === "input" ? "canvas.inputs" : "canvas.outputs"),
      type: socket.type,
      hint: isLink(value) ? t("canvas.from", { source: value.from }) : spokenType(socket.type),
      wire: { name: `${node}.${socket.name}`, side, type: socket.type },
    };
  };
  return (
    <SearchList
      label={t("canvas.sockets_of", { node: titleOf(graph, catalog, node) })}
      placeholder={t("canvas.search_sockets")}
      items={[
        ...(spec?.outputs ?? []).map((socket) => item("output", socket)),
        ...(spec?.inputs ?? []).map((socket) => item("input", socket)),
      ]}
      onPick={(picked) => onPick(picked.wire)}
      onClose={onLeave}
    />
  );
}

interface EndItem extends SearchItem {
  act: () => void;
}

interface EndsProps {
  wire: WireEnd;
  popup: SocketsPopup;
  onBack: () => void;
  onLeave: () => void;
}

function Ends({ wire, popup, onBack, onLeave }: EndsProps) {
  const graph = useEditor((state) => state.graph);
  const [node, socket] = splitTarget(wire.name);
  const isInput = wire.side === "input";
  const ends: EndItem[] = endsFor(wire).map((end) => ({
    id: `${end.node}.${end.socket.name}`,
    label: `${end.title} · ${spoken(end.socket.name)}`,
    more: `${end.node} ${end.socket.type}`,
    group: t(isInput ? "canvas.outputs" : "canvas.inputs"),
    type: end.socket.type,
    hint: end.from ? t("canvas.from", { source: end.from }) : end.node,
    act: () => {
      const other = `${end.node}.${end.socket.name}`;
      link(isInput ? other : wire.name, isInput ? wire.name : other);
      onLeave();
    },
  }));
  const group = t("canvas.more_ways");
  const fresh: EndItem = {
    id: "$new",
    label: t("canvas.new_node"),
    more: "",
    group,
    act: () => openPopup({ ...popup, kind: "palette", flow: beside(popup, isInput), wire }),
  };
  const off: EndItem = {
    id: "$off",
    label: t("canvas.disconnect"),
    more: "",
    group,
    act: () => {
      unlink(wire.name);
      onLeave();
    },
  };
  const isLinked = isInput && isLink(graph.nodes[node]?.inputs[socket]);
  return (
    <SearchList
      key={wire.name}
      label={t(isInput ? "canvas.outputs_for" : "canvas.inputs_for", { socket: spoken(socket) })}
      placeholder={t("canvas.search_sockets")}
      items={[...ends, fresh, ...(isLinked ? [off] : [])]}
      onPick={(item) => item.act()}
      onClose={onLeave}
      onBack={onBack}
    />
  );
}

/** A new node goes to the side that its wire comes from. */
function beside({ node, x, y }: SocketsPopup, isInput: boolean): [number, number] {
  const at = editorPlace(node);
  return at ? below([at[0] + (isInput ? -360 : 360), at[1]]) : onCanvas({ x, y });
}

function editorPlace(node: string): [number, number] | undefined {
  return editorStore.getState().graph.nodes[node]?.at;
}
