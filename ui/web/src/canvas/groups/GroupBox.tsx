import { NodeResizeControl, type NodeProps } from "@xyflow/react";
import { memo } from "react";
import { setGroup } from "../../graph/edits";
import { t } from "../../i18n";
import { IconButton } from "../../parts/IconButton";
import { edit } from "../../store/editor";
import { useCanvasUi } from "../canvasUi";
import { openMenuBeside } from "../commands/itemCommands";
import type { GroupNode } from "../flow/flowNodes";
import { colorClass } from "../look";
import { TitleLine } from "./TitleLine";

/** A frame behind nodes: dragged by its head, it takes along what lies in it. */
export const GroupBox = memo(Box, (a, b) => a.data === b.data && a.selected === b.selected);

function Box({ id, data: { group }, selected }: NodeProps<GroupNode>) {
  const retitle = (title: string) => edit(t("canvas.rename"), (graph) => setGroup(graph, group.id, { title }));
  const isJoined = useCanvasUi(({ joining }) => joining.joins === group.id);
  const isLeft = useCanvasUi(({ joining }) => joining.leaves === group.id);
  const classes = [
    "ll-group",
    selected ? "ll-group-selected" : "",
    isJoined ? "ll-group-joined" : "",
    isLeft ? "ll-group-left" : "",
    colorClass(group.color || "grey"),
  ];
  return (
    <div className={classes.filter(Boolean).join(" ")}>
      <div className="ll-group-head">
        <TitleLine of={id} label={t("canvas.group_title")} value={group.title} onSettle={retitle} />
        <IconButton
          icon="more"
          size={15}
          className="nodrag"
          label={t("canvas.menu_of", { node: group.title || t("canvas.group") })}
          tabIndex={-1}
          aria-haspopup="menu"
          onClick={(event) => openMenuBeside(event.currentTarget, { kind: "group", id: group.id })}
        />
      </div>
      {selected && <NodeResizeControl className="ll-resize" position="bottom-right" minWidth={160} minHeight={80} />}
    </div>
  );
}
