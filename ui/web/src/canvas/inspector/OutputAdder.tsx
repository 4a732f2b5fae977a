import { specFor, titleOf } from "../../graph/catalog";
import { setOutput } from "../../graph/edits";
import { freshName } from "../../graph/names";
import { has } from "../../graph/record";
import { t } from "../../i18n";
import { spoken } from "../../parts/format";
import { MenuButton, type MenuItem } from "../../parts/overlays/Menu";
import { edit, useEditor } from "../../store/editor";
import type { Catalog, EditorGraph } from "../../types";

/** Declares one more output of the workflow: any output of a node that is not declared yet. */
export function OutputAdder() {
  const graph = useEditor((state) => state.graph);
  const catalog = useEditor((state) => state.catalog);
  const items = choices(graph, catalog);
  if (items.length === 0) return null;
  return <MenuButton label={t("canvas.add_output")} items={items} icon="plus" hasText />;
}

/** Outputs of nodes that save something come first. */
function choices(graph: EditorGraph, catalog: Catalog): MenuItem[] {
  const declared = new Set(Object.values(graph.outputs).map((link) => link.from));
  const nodes = Object.entries(graph.nodes).map(([name, node]) => ({ name, spec: specFor(graph, catalog, node) }));
  nodes.sort((a, b) => Number(b.spec?.is_output ?? false) - Number(a.spec?.is_output ?? false));
  return nodes.flatMap(({ name, spec }) =>
    (spec?.outputs ?? [])
      .filter((output) => !declared.has(`${name}.${output.name}`))
      .map((output) => ({
        label: `${titleOf(graph, catalog, name)} · ${spoken(output.name)}`,
        onSelect: () => declare(name, output.name),
      })),
  );
}

function declare(node: string, socket: string): void {
  edit(t("canvas.add_output"), (graph) => {
    const name = freshName(socket, (taken) => has(graph.outputs, taken));
    return setOutput(graph, name, `${node}.${socket}`);
  });
}
