import { useRef, useState } from "react";
import { own } from "../../graph/record";
import { isLink, plainValue } from "../../graph/values";
import { t } from "../../i18n";
import { IconButton } from "../../parts/IconButton";
import { Popover } from "../../parts/overlays/Popover";
import { useEditor } from "../../store/editor";
import { useTold } from "../../store/told";
import type { EditorGraph, Sizes } from "../../types";
import { SizePicker } from "../../widgets/numbers/SizePicker";
import type { Size } from "../../widgets/numbers/sizes";
import { setSize } from "../commands/valueCommands";

/** The shape and area of what a node paints, where both of its sides are written there or in params. */
export function NodeSize({ name }: { name: string }) {
  const found = useSize(name);
  if (!found) return null;
  return <SizePicker {...found} onPick={(size, isSettled) => setSize(name, size, isSettled)} />;
}

/** Opens the same on a node's card. */
export function SizeButton({ name }: { name: string }) {
  const isHere = useSize(name) !== null;
  const [isOpen, setOpen] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  if (!isHere) return null;
  return (
    <>
      <IconButton
        ref={button}
        icon="ratio"
        size={14}
        className="ll-size-open nodrag"
        label={t("widgets.shape")}
        aria-haspopup="dialog"
        aria-expanded={isOpen}
        onClick={() => setOpen(!isOpen)}
      />
      {isOpen && (
        <Popover
          anchor={button}
          onDismiss={() => setOpen(false)}
          className="ll-size-popover nodrag nowheel"
          role="dialog"
          aria-label={t("widgets.shape")}
          onKeyDown={(event) => {
            event.stopPropagation();
            if (event.key !== "Escape") return;
            setOpen(false);
            button.current?.focus();
          }}
        >
          <NodeSize name={name} />
        </Popover>
      )}
    </>
  );
}

/** null where nobody knows what the node paints, or a wire or a list brings a side. */
function useSize(name: string): { size: Size; sizes: Sizes } | null {
  const sizes = useTold((told) => own(told.sizes, name));
  const width = useEditor(({ graph }) => sideOf(graph, name, "width"));
  const height = useEditor(({ graph }) => sideOf(graph, name, "height"));
  return sizes && width !== null && height !== null ? { size: { width, height }, sizes } : null;
}

function sideOf(graph: EditorGraph, name: string, side: "width" | "height"): number | null {
  const node = own(graph.nodes, name);
  const value = own(node?.inputs ?? {}, side);
  if (!node || isLink(value) || own(node.each ?? {}, side)) return null;
  const plain = plainValue(graph, value) ?? 0;
  return typeof plain === "number" ? plain : null;
}
