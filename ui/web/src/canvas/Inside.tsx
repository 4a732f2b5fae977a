import { specIn, SUB } from "../graph/subs";
import { insideOf, keyAt, usersOfSub } from "../graph/inside";
import { titleOf } from "../graph/catalog";
import { plural, t } from "../i18n";
import { IconButton } from "../parts/IconButton";
import { goInside, useEditor } from "../store/editor";
import { goOut } from "./commands/subCommands";

/** Inside of a sub-workflow: the way there from the workflow, and that what is changed here changes all who use it. */
export function Inside() {
  const inside = useEditor((state) => state.inside);
  const whole = useEditor((state) => state.whole);
  const catalog = useEditor((state) => state.catalog);
  if (inside.length === 0) return null;
  const key = keyAt(whole, inside);
  const users = usersOfSub(whole, key);
  const steps = inside.map((name, index) => {
    const graph = insideOf(whole, inside.slice(0, index)) ?? whole;
    return {
      path: inside.slice(0, index + 1),
      title: titleOf(graph, catalog, name),
    };
  });
  const here = steps.at(-1)?.title ?? "";
  const sub = specIn(whole.subs, catalog, SUB + key)?.title ?? key;
  return (
    <nav className="ll-inside" aria-label={t("canvas.sub_place")}>
      <IconButton icon="chevron-left" label={`${t("canvas.sub_back")} (Esc)`} onClick={goOut} />
      <ol>
        <li>
          <button type="button" onClick={() => goInside([])}>
            {whole.name}
          </button>
        </li>
        {steps.slice(0, -1).map(({ path, title }) => (
          <li key={path.join("/")}>
            <button type="button" onClick={() => goInside(path)}>
              {title}
            </button>
          </li>
        ))}
        <li aria-current="page">{here}</li>
      </ol>
      <p>{t(`canvas.sub_users_${plural(users)}`, { name: sub, n: users })}</p>
    </nav>
  );
}
