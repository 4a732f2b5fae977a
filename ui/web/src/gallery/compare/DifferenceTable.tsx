import type { ReactNode } from "react";
import type { Difference } from "../../graph/difference";
import { t } from "../../i18n";

interface DifferenceTableProps {
  rows: readonly Difference[];
  /** The heads of both columns. */
  a: ReactNode;
  b: ReactNode;
  corner?: ReactNode;
}

/** What is not the same on two sides, row by row: values, wires, nodes that only one has. */
export function DifferenceTable({ rows, a, b, corner }: DifferenceTableProps) {
  return (
    <table className="ll-difference-table">
      <caption className="ll-hidden">{t("gallery.differing")}</caption>
      <thead>
        <tr>
          <th scope="col">{corner ?? <span className="ll-hidden">{t("gallery.differing")}</span>}</th>
          <th scope="col">{a}</th>
          <th scope="col">{b}</th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={`${row.kind} ${row.name}`} data-kind={row.kind}>
            <th scope="row">
              {row.name}
              {row.kind !== "value" && <span className="ll-difference-kind">{t(`gallery.differs_${row.kind}`)}</span>}
            </th>
            <td>{row.a || "–"}</td>
            <td>{row.b || "–"}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
