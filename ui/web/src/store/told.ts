/** What the checker told, by the nodes that are on the canvas now: of the workflow, or inside of a sub-workflow. */

import { plainName } from "../graph/subs";
import { splitTarget } from "../graph/values";
import type { Problem } from "../types";
import { useEditor, type EditorState } from "./editor";

type Told = Pick<EditorState, "problems" | "meant" | "sizes" | "tokens">;
type Asked = Told & Pick<EditorState, "inside">;

let last: { asked: Asked; told: Told } | undefined;

export function useTold<T>(selector: (told: Told) => T): T {
  return useEditor((state) => selector(toldHere(state)));
}

/** Answered once for each state: every node asks. */
export function toldHere(asked: Asked): Told {
  if (asked.inside.length === 0) return asked;
  const { problems, meant, sizes, tokens, inside } = last?.asked ?? {};
  const isSame = problems === asked.problems && meant === asked.meant && sizes === asked.sizes;
  if (!last || !isSame || tokens !== asked.tokens || inside !== asked.inside) last = { asked, told: find(asked) };
  return last.told;
}

function find({ inside, problems, meant, sizes, tokens }: Asked): Told {
  const before = `${inside.join("/")}/`;
  const below = (name: string): string => {
    const plain = plainName(name);
    return plain.startsWith(before) ? plain.slice(before.length) : "";
  };
  const here = <T>(by: Readonly<Record<string, T>>): Record<string, T> =>
    Object.fromEntries(
      Object.entries(by)
        .reverse() // of several elements the first one
        .map(([name, value]) => [below(name), value] as const)
        .filter(([name]) => name && !name.includes("/")),
    );
  return {
    problems: problems.flatMap((problem) => placed(problem, below)),
    meant: here(meant),
    sizes: here(sizes),
    tokens: here(tokens),
  };
}

function placed(problem: Problem, below: (name: string) => string): Problem[] {
  const [inside, socket] = splitTarget(problem.inside);
  const [node = "", ...deeper] = below(inside).split("/");
  return node ? [{ ...problem, node, socket: deeper.length ? "" : socket }] : [];
}
