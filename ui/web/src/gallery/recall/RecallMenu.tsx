import { useRef, useState } from "react";
import { fromFile } from "../../graph/file/workflowFile";
import { needsOf } from "../../graph/order";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { Menu, type MenuItem } from "../../parts/overlays/Menu";
import { useEditor } from "../../store/editor";
import type { Result } from "../../types";
import { useRunRecord } from "../useRunRecord";
import { recalledOf, type RecallKind } from "./places";
import { recallOne, recallValues, useAsInput } from "./recallActions";

const KINDS: readonly RecallKind[] = ["prompt", "negative_prompt", "seed", "size"];

/** What of a result goes to the canvas: its prompt, seed, size, all of its values, or itself as an input. */
export function RecallMenu({ result }: { result: Result }) {
  const [isOpen, setOpen] = useState(false);
  const button = useRef<HTMLButtonElement>(null);
  const catalog = useEditor((state) => state.catalog);
  const { run } = useRunRecord(result.run);
  const items = (): MenuItem[] => {
    const graph = run?.graph ? fromFile(run.graph) : null;
    const value = graph
      ? recalledOf(graph, catalog, result, needsOf(graph, result.node))
      : { prompt: result.prompt, ...(result.seed !== null && { seed: result.seed }) };
    const each = KINDS.filter((kind) => kind in value).map((kind) => ({
      label: t(`gallery.recall_${kind}`),
      onSelect: () => recallOne(kind, value),
    }));
    return [
      ...each,
      "-",
      { label: t("gallery.use_as_input"), icon: result.kind, onSelect: () => void useAsInput(result) },
      { label: t("gallery.recall_all"), isDisabled: !graph, onSelect: () => void recallValues(result) },
    ];
  };
  return (
    <>
      <Button ref={button} icon="arrow-up" aria-haspopup="menu" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {t("gallery.to_canvas")}
      </Button>
      {isOpen && <Menu label={t("gallery.to_canvas")} items={items()} at={button} onClose={() => setOpen(false)} />}
    </>
  );
}
