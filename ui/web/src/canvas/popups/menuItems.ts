/** The entries of the canvas's menus, by what was clicked. */

import { nodeSpec } from "../../graph/catalog";
import type { Alignment } from "../../graph/edits/align";
import { canExpose } from "../../graph/edits/params";
import { isEmpty } from "../../graph/file/workflowFile";
import { idsOf, itemKey } from "../../graph/items";
import { own } from "../../graph/record";
import { subOf } from "../../graph/subs";
import { isLink, isParamRef } from "../../graph/values";
import { t } from "../../i18n";
import { openHelpOf } from "../../panels/help/openHelp";
import { runTo } from "../../panels/runs/runActions";
import { spoken } from "../../parts/format";
import type { MenuAction, MenuItem } from "../../parts/overlays/Menu";
import { editorStore, redo, select, undo } from "../../store/editor";
import type { Point } from "../../types";
import { canvasUi, middle, openPopup, type Target } from "../canvasUi";
import { alignable, ALIGN_KEYS, alignSelected, distributeSelected, GAP_KEYS } from "../commands/alignCommands";
import { copyAs, type Form } from "../commands/copyAs";
import { focusItem, focusNode } from "../commands/focusItem";
import { addLora, takesLora } from "../commands/loraCommands";
import {
  addComment,
  arrange,
  collapse,
  copy,
  cut,
  duplicate,
  groupSelected,
  paint,
  paste,
  remove,
  selectAll,
  toggleMode,
} from "../commands/itemCommands";
import { foldSelected, goIn, publish, unfoldNode } from "../commands/subCommands";
import { expose, resetValue, unexpose } from "../commands/valueCommands";
import { putReroute, unlink } from "../commands/wireCommands";
import { COLORS } from "../look";

export function menuItems(target: Target, at: Point): MenuItem[] {
  switch (target.kind) {
    case "node":
      return nodeItems(target.name, target.socket);
    case "wire":
      return wireItems(target.socket, at);
    case "canvas":
      return canvasItems(at);
    case "group":
    case "note":
    case "reroute":
      return frameItems(itemKey(target.kind, target.id), target.kind !== "reroute");
  }
}

function nodeItems(name: string, socket: string | undefined): MenuItem[] {
  const { graph, selection } = editorStore.getState();
  const node = own(graph.nodes, name);
  if (!node) return [];
  const chosen = idsOf(selection, "node");
  const names = chosen.includes(name) ? chosen : [name];
  const keys = names.map((each) => itemKey("node", each));
  const isFolded = node.collapsed ?? false;
  return [
    { label: t("canvas.run_here"), icon: "play", onSelect: () => void runTo(...names) },
    { label: t("canvas.wiring"), icon: "link", hint: "Enter", onSelect: () => openSocketsOf(name) },
    { label: t("help.open"), icon: "help", hint: "F1", onSelect: () => void openHelpOf(name) },
    ...(socket ? socketItems(name, socket) : []),
    "-",
    ...(takesLora(name) ? [{ label: t("canvas.add_lora"), icon: "plus" as const, onSelect: () => addLora(name) }] : []),
    ...modeItems(names),
    {
      label: t(isFolded ? "canvas.unfold" : "canvas.fold"),
      icon: isFolded ? "chevron-right" : "chevron-down",
      hint: ".",
      onSelect: () => collapse(names, !isFolded),
    },
    colorItem(keys),
    ...alignItem(),
    { label: t("canvas.group_selected"), icon: "group", hint: "Ctrl+G", onSelect: () => groupSelected() },
    ...subItems(names),
    "-",
    copyAsItem(names),
    ...editItems(),
  ];
}

/** Folding nodes into one, and what can be done with such a one. */
function subItems(names: readonly string[]): MenuItem[] {
  const { graph } = editorStore.getState();
  const [name = ""] = names;
  const sub = names.length === 1 ? subOf(graph.subs, graph.nodes[name]?.type ?? "") : undefined;
  const items: MenuItem[] = [
    { label: t("canvas.sub_fold"), icon: "group", hint: "Ctrl+Shift+G", onSelect: () => foldSelected(names) },
  ];
  if (!sub) return items;
  const isEach = Object.keys(graph.nodes[name]?.each ?? {}).length > 0;
  return [
    { label: t("canvas.sub_open"), icon: "edit", hint: "Shift+Enter", onSelect: () => void goIn(name) },
    ...items,
    { label: t("canvas.sub_unfold"), icon: "grid", isDisabled: isEach, onSelect: () => unfoldNode(name) },
    { label: t("canvas.sub_publish"), icon: "plus", onSelect: () => void publish(name) },
  ];
}

function modeItems(names: readonly string[]): MenuAction[] {
  const { nodes } = editorStore.getState().graph;
  const isAll = (mode: string) => names.every((name) => nodes[name]?.mode === mode);
  return [
    {
      label: t(isAll("mute") ? "canvas.unmute" : "canvas.mute"),
      icon: "mute",
      hint: "Ctrl+M",
      onSelect: () => toggleMode("mute", names),
    },
    {
      label: t(isAll("bypass") ? "canvas.unbypass" : "canvas.bypass"),
      icon: "bypass",
      hint: "Ctrl+B",
      onSelect: () => toggleMode("bypass", names),
    },
  ];
}

/** Of the row that was clicked. */
function socketItems(name: string, socket: string): MenuItem[] {
  const { graph, catalog } = editorStore.getState();
  const spec = nodeSpec(graph, catalog, name)?.inputs.find((input) => input.name === socket);
  const value = own(graph.nodes[name]?.inputs ?? {}, socket);
  const words = { name: spoken(socket) };
  const items: MenuItem[] = ["-"];
  if (isLink(value))
    items.push({
      label: t("canvas.disconnect_socket", words),
      icon: "close",
      onSelect: () => unlink(`${name}.${socket}`),
    });
  else if (isParamRef(value))
    items.push({
      label: t("canvas.unexpose", { name: value.param }),
      icon: "unlock",
      onSelect: () => unexpose(value.param),
    });
  else if (spec && (canExpose(spec) || editorStore.getState().inside.length > 0))
    items.push({ label: t("canvas.expose", words), icon: "settings", onSelect: () => expose(name, spec) });
  if (value !== undefined && !isLink(value)) {
    items.push({
      label: t(spec ? "canvas.reset_socket" : "canvas.remove_socket", words),
      icon: "undo",
      onSelect: () => resetValue([name], socket),
    });
  }
  return items;
}

function openSocketsOf(node: string): void {
  const found = canvasUi.getState().box?.querySelector(`[data-id="${CSS.escape(itemKey("node", node))}"]`);
  const rect = found?.getBoundingClientRect();
  const place = rect ? { x: rect.left + 16, y: rect.top + 34 } : middle();
  openPopup({ kind: "sockets", ...place, node });
}

/** Menus have one level here: the colours are a menu that follows. */
function colorItem(keys: readonly string[]): MenuItem {
  const place = canvasUi.getState().popup ?? middle();
  return {
    label: t("canvas.color"),
    icon: "palette",
    onSelect: () => openPopup({ kind: "colors", x: place.x, y: place.y, keys: [...keys] }),
  };
}

export function colorItems(keys: readonly string[]): MenuItem[] {
  return COLORS.map((color) => ({ label: t(`canvas.color_${color || "none"}`), onSelect: () => paint(keys, color) }));
}

/** Where there are things to line up. */
function alignItem(): MenuItem[] {
  if (alignable().length < 2) return [];
  const { x, y } = canvasUi.getState().popup ?? middle();
  return [{ label: t("canvas.align"), icon: "arrange", onSelect: () => openPopup({ kind: "align", x, y }) }];
}

export function alignItems(): MenuItem[] {
  const line = (how: Alignment): MenuAction => ({
    label: t(`canvas.align_${how}`),
    hint: ALIGN_KEYS[how],
    onSelect: () => alignSelected(how),
  });
  const gaps = (how: "across" | "down"): MenuAction => ({
    label: t(`canvas.gaps_${how}`),
    hint: GAP_KEYS[how],
    isDisabled: alignable().length < 3,
    onSelect: () => distributeSelected(how),
  });
  const [sides, middles] = [["left", "right", "top", "bottom"] as const, ["column", "row"] as const];
  return [...sides.map(line), "-", ...middles.map(line), "-", gaps("across"), gaps("down")];
}

function copyAsItem(names: readonly string[]): MenuItem {
  const { x, y } = canvasUi.getState().popup ?? middle();
  return {
    label: t("canvas.copy_as"),
    icon: "copy",
    onSelect: () => openPopup({ kind: "copy_as", x, y, names: [...names] }),
  };
}

export function copyAsItems(names: readonly string[]): MenuItem[] {
  const isInside = editorStore.getState().inside.length > 0; // neither script nor command begins there
  const forms: Form[] = isInside ? ["json"] : ["python", "command", "json"];
  return forms.map((form) => ({
    label: t(`canvas.copy_as_${form}`),
    onSelect: () => void copyAs(form, names),
  }));
}

function editItems(): MenuItem[] {
  return [
    { label: t("canvas.copy"), icon: "copy", hint: "Ctrl+C", onSelect: () => void copy() },
    { label: t("canvas.cut"), icon: "cut", hint: "Ctrl+X", onSelect: cut },
    { label: t("canvas.duplicate"), icon: "duplicate", hint: "Ctrl+D", onSelect: duplicate },
    { label: t("canvas.remove"), icon: "trash", hint: "Delete", isDanger: true, onSelect: () => remove() },
  ];
}

function wireItems(socket: string, at: Point): MenuItem[] {
  const { graph } = editorStore.getState();
  const [node = "", input = ""] = socket.split(".");
  const value = own(own(graph.nodes, node)?.inputs ?? {}, input);
  if (!isLink(value)) return [];
  const source = value.from.slice(0, value.from.indexOf("."));
  return [
    { label: t("canvas.add_reroute"), icon: "plus", onSelect: () => putReroute(socket, at) },
    { label: t("canvas.go_to", { node: source }), icon: "chevron-left", onSelect: () => focusNode(source) },
    { label: t("canvas.go_to", { node }), icon: "chevron-right", onSelect: () => focusNode(node) },
    "-",
    { label: t("canvas.disconnect"), icon: "trash", hint: "Del", isDanger: true, onSelect: () => unlink(socket) },
  ];
}

function frameItems(key: string, isFrame: boolean): MenuItem[] {
  const choose = () => {
    select([key]);
    focusItem(key);
  };
  return [
    ...(isFrame
      ? [colorItem([key]), { label: t("canvas.copy"), icon: "copy" as const, onSelect: () => void copy() }]
      : []),
    { label: t("canvas.select"), icon: "check", onSelect: choose },
    { label: t("canvas.remove"), icon: "trash", isDanger: true, onSelect: () => remove([key]) },
  ];
}

function canvasItems(at: Point): MenuItem[] {
  const { canUndo, canRedo } = editorStore.getState();
  const place = canvasUi.getState().popup ?? middle();
  return [
    {
      label: t("canvas.add"),
      icon: "plus",
      hint: "/",
      onSelect: () => openPopup({ kind: "palette", x: place.x, y: place.y, flow: at, wire: null }),
    },
    { label: t("canvas.add_comment"), icon: "note", onSelect: () => addComment(at) },
    { label: t("canvas.add_group"), icon: "group", onSelect: () => groupSelected(at) },
    "-",
    { label: t("canvas.paste"), icon: "paste", hint: "Ctrl+V", onSelect: () => void paste({ at }) },
    { label: t("canvas.select_all"), icon: "grid", hint: "Ctrl+A", onSelect: selectAll },
    { label: t("canvas.arrange"), icon: "arrange", hint: "L", onSelect: arrange },
    ...(isEmpty(editorStore.getState().graph) ? [] : [copyAsItem(Object.keys(editorStore.getState().graph.nodes))]),
    "-",
    { label: t("canvas.undo"), icon: "undo", hint: "Ctrl+Z", isDisabled: !canUndo, onSelect: undo },
    { label: t("canvas.redo"), icon: "redo", hint: "Ctrl+Y", isDisabled: !canRedo, onSelect: redo },
  ];
}
