import { showItem } from "../../canvas/commands/focusItem";
import { titleOf } from "../../graph/catalog";
import { itemKey } from "../../graph/items";
import { has } from "../../graph/record";
import { t } from "../../i18n";
import { Empty } from "../../parts/Empty";
import { Icon } from "../../parts/icons";
import { useEditor } from "../../store/editor";
import type { Problem } from "../../types";
import { focusField } from "./focusField";

/** What is wrong with the workflow; a click goes to the place. */
export function ProblemsPanel() {
  const problems = useEditor((state) => state.problems);
  if (problems.length === 0)
    return <Empty icon="check" title={t("panels.no_problems")} text={t("panels.no_problems_text")} />;
  return (
    <ul className="ll-panel ll-problems">
      {problems.map((problem, index) => (
        <li key={index}>
          <OneProblem problem={problem} />
        </li>
      ))}
    </ul>
  );
}

function OneProblem({ problem }: { problem: Problem }) {
  const isHere = useEditor((state) => has(state.graph.nodes, problem.node));
  const title = useEditor((state) => titleOf(state.graph, state.catalog, problem.node));
  const place = problem.socket ? `${title}: ${problem.socket}` : title;
  const content = (
    <>
      <Icon name="warning" size={16} />
      <span>
        {place && <strong>{place}</strong>}
        <span>{problem.message}</span>
      </span>
    </>
  );
  if (!isHere) return <div className="ll-problem">{content}</div>;
  return (
    <button type="button" className="ll-problem" onClick={() => goTo(problem)}>
      {content}
    </button>
  );
}

/** To the node, and on to the field of its socket where that is drawn. */
function goTo({ node, socket }: Problem): void {
  showItem(itemKey("node", node));
  if (socket) focusField(node, socket);
}
