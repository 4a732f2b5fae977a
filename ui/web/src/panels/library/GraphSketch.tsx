import { useMemo } from "react";
import { kindOf } from "../../canvas/look";
import { fromFile } from "../../graph/file/workflowFile";
import { own } from "../../graph/record";
import { specIn } from "../../graph/subs";
import { isLink, splitTarget } from "../../graph/values";
import { useEditor } from "../../store/editor";
import type { EditorGraph, GraphFile, Point } from "../../types";

const BOX: Point = [200, 120];
const MARGIN = 30;

/** A workflow in miniature, for one that has no picture: its boxes, in the colours of their kinds, and wires. */
export function GraphSketch({ file }: { file: GraphFile }) {
  const graph = useMemo(() => readable(file), [file]);
  const catalog = useEditor((state) => state.catalog);
  if (!graph) return null;
  const places = Object.values(graph.nodes).map((node) => node.at);
  const left = Math.min(...places.map((at) => at[0])) - MARGIN;
  const top = Math.min(...places.map((at) => at[1])) - MARGIN;
  const width = Math.max(...places.map((at) => at[0])) + BOX[0] + MARGIN - left;
  const height = Math.max(...places.map((at) => at[1])) + BOX[1] + MARGIN - top;
  return (
    <svg className="ll-sketch" viewBox={`${left} ${top} ${width} ${height}`} aria-hidden="true" focusable="false">
      {wiresOf(graph).map((path, index) => (
        <path key={index} className="ll-sketch-wire" d={path} />
      ))}
      {Object.entries(graph.nodes).map(([name, node]) => (
        <g key={name} className={`ll-tone-${kindOf(specIn(graph.subs, catalog, node.type)).tone}`}>
          <rect className="ll-sketch-node" x={node.at[0]} y={node.at[1]} width={BOX[0]} height={BOX[1]} rx={14} />
          <rect
            className="ll-sketch-head"
            x={node.at[0] + 18}
            y={node.at[1] + 20}
            width={BOX[0] * 0.55}
            height={16}
            rx={8}
          />
        </g>
      ))}
    </svg>
  );
}

function readable(file: GraphFile): EditorGraph | null {
  try {
    const graph = fromFile(file);
    return Object.keys(graph.nodes).length > 0 ? graph : null;
  } catch {
    return null; // opening it says what is wrong
  }
}

function wiresOf(graph: EditorGraph): string[] {
  return Object.values(graph.nodes).flatMap((node) =>
    Object.values(node.inputs)
      .filter(isLink)
      .flatMap((link) => {
        const source = own(graph.nodes, splitTarget(link.from)[0]);
        return source
          ? [wire([source.at[0] + BOX[0], source.at[1] + BOX[1] / 2], [node.at[0], node.at[1] + BOX[1] / 2])]
          : [];
      }),
  );
}

function wire([fromX, fromY]: Point, [toX, toY]: Point): string {
  const bend = Math.max(Math.abs(toX - fromX) / 2, 40);
  return `M${fromX} ${fromY}C${fromX + bend} ${fromY} ${toX - bend} ${toY} ${toX} ${toY}`;
}
