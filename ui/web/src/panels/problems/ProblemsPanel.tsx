import { showItem } from "../../canvas/commands/focusItem";
import { KINDS, PROBLEM_ICONS } from "../../canvas/nodes/problemsOf";
import { titleOf } from "../../graph/catalog";
import { itemKey } from "../../graph/items";
import { has } from "../../graph/record";
import { plainName } from "../../graph/subs";
import { splitTarget } from "../../graph/values";
import { plural, t } from "../../i18n";
import { Button } from "../../parts/Button";
import { Empty } from "../../parts/Empty";
import { Icon } from "../../parts/icons";
import { editorStore, goInside, useEditor } from "../../store/editor";
import type { Problem } from "../../types";
import { run } from "../runs/runActions";
import { areReckoned } from "../runs/submit";
import { focusField } from "./focusField";
import { GetMissing } from "./GetMissing";
import { applyMend, mendsFor, mendText } from "./mends";
import { worded } from "../../worded";
import { spoken } from "../../parts/format";

/** What is wrong with the workflow, what may be, and what nobody knows; a click goes to the place. */
export function ProblemsPanel() {
  const problems = useEditor((state) => state.problems);
  if (problems.length === 0)
    return <Empty icon="check" title={t("panels.no_problems")} text={t("panels.no_problems_text")} />;
  const blocking = problems.filter(({ kind }) => kind !== "unknown");
  return (
    <div className="ll-panel">
      <p>{sumOf(problems)}</p>
      {areReckoned(blocking) && (
        <div>
          <Button icon="play" onClick={() => void run({ force: true })}>
            {t("panels.run_anyway")}
          </Button>
        </div>
      )}
      <ul className="ll-problems">
        {problems.map((problem, index) => (
          <OneProblem key={index} problem={problem} />
        ))}
      </ul>
    </div>
  );
}

function OneProblem({ problem }: { problem: Problem }) {
  const isHere = useEditor((state) => has(state.whole.nodes, problem.node));
  const title = useEditor((state) => titleOf(state.whole, state.catalog, problem.node));
  const { kind, code } = problem;
  const place = problem.socket ? `${title}: ${spoken(problem.socket)}` : title;
  const content = (
    <>
      <Icon name={PROBLEM_ICONS[kind]} size={16} />
      <span>
        <span className="ll-problem-kind">{t(code === "unknown_words" ? "core.note" : `core.problem_${kind}`)}</span>
        {place && <strong>{place}</strong>}
        <span>{worded(problem.message)}</span>
      </span>
    </>
  );
  return (
    <li className={`ll-problem ll-problem-is-${kind}`}>
      {isHere ? (
        <button type="button" className="ll-problem-said" onClick={() => goTo(problem)}>
          {content}
        </button>
      ) : (
        <div className="ll-problem-said">{content}</div>
      )}
      <Mends problem={problem} />
      <GetMissing problem={problem} />
    </li>
  );
}

/** A button for each set of values that mends it. */
function Mends({ problem }: { problem: Problem }) {
  const graph = useEditor((state) => state.whole);
  const catalog = useEditor((state) => state.catalog);
  const mends = mendsFor(graph, problem.mends);
  if (mends.length === 0) return null;
  return (
    <div className="ll-problem-mends">
      {mends.map((mend) => (
        <Button key={JSON.stringify(mend)} onClick={() => applyMend(mend)}>
          {mendText(graph, catalog, mend, problem.node)}
        </Button>
      ))}
    </div>
  );
}

/** "1 error, 2 estimates, 1 not known" */
function sumOf(problems: readonly Problem[]): string {
  return KINDS.map((kind) => ({ kind, count: problems.filter((problem) => problem.kind === kind).length }))
    .filter(({ count }) => count > 0)
    .map(({ kind, count }) => t(`panels.sum_${kind}_${plural(count)}`, { count }))
    .join("; ");
}

/** To the node, inside of a sub-workflow too, and on to the field of its socket where that is drawn. */
function goTo(problem: Problem): void {
  const [place, deep] = splitTarget(problem.inside);
  const way = place && !problem.socket ? plainName(place).split("/") : [problem.node];
  goInside(way.slice(0, -1));
  const { inside } = editorStore.getState();
  const isThere = inside.length === way.length - 1;
  const node = way[inside.length] ?? problem.node;
  const socket = isThere ? (place && !problem.socket ? deep : problem.socket) : "";
  showItem(itemKey("node", node));
  if (socket) focusField(node, socket);
}
