import { useMemo, type ReactNode } from "react";
import { asRead } from "../../exact";
import { fromFile } from "../../graph/file/workflowFile";
import { t } from "../../i18n";
import { CopyButton } from "../../parts/CopyButton";
import { formatBytes, formatSeconds, moment } from "../../parts/format";
import { useEditor } from "../../store/editor";
import type { Result, RunWithGraph } from "../../types";
import { inputsBehind, valuesBehind } from "../inputsBehind";
import { number } from "../resultWords";
import { shown } from "../sweeps/sweepTable";
import { useRunRecord } from "../useRunRecord";
import { ModelsBehind } from "./ModelsBehind";
import { RankWork } from "./RankWork";

/** What a result shows and how it was made: prompt, seed, params, size, time, plan, the ranks' work, versions. */
export function Facts({ result }: { result: Result }) {
  const { run, problem } = useRunRecord(result.run);
  const values = useValues(result, run);
  return (
    <>
      {result.prompt && (
        <section className="ll-facts">
          <h3>
            {t("gallery.prompt")} <CopyButton text={result.prompt} label={t("gallery.copy_prompt")} />
          </h3>
          <p className="ll-facts-prompt">{result.prompt}</p>
        </section>
      )}
      <section className="ll-facts">
        <h3>{t("gallery.params")}</h3>
        <dl>
          {result.seed !== null && (
            <Fact name={t("gallery.seed")}>
              <code>{asRead(result.seed)}</code>{" "}
              <CopyButton text={asRead(result.seed)} label={t("gallery.copy_seed")} />
            </Fact>
          )}
          {values.map(({ name, value }) => (
            <Fact key={name} name={name}>
              {value || "–"}
            </Fact>
          ))}
        </dl>
      </section>
      <section className="ll-facts">
        <h3>{t("gallery.file")}</h3>
        <dl>
          <Fact name={t("gallery.size")}>
            {result.kind !== "audio" && `${t("gallery.pixels", { width: result.width, height: result.height })}, `}
            {formatBytes(result.bytes)}
          </Fact>
          {result.kind === "video" && (
            <Fact name={t("gallery.frames")}>
              {t("gallery.frames_at", { frames: number(result.frames), fps: number(result.fps, 2) })}
            </Fact>
          )}
          {result.kind === "audio" && <Fact name={t("gallery.length")}>{formatSeconds(result.length_s)}</Fact>}
          {result.rate > 0 && (
            <Fact name={t("gallery.sound")}>
              {t("gallery.sound_at", { channels: number(result.channels), rate: number(result.rate) })}
            </Fact>
          )}
          <Fact name={t("gallery.made")}>{moment(result.time)}</Fact>
          <Fact name={t("gallery.workflow")}>{result.workflow_name || "–"}</Fact>
        </dl>
      </section>
      <section className="ll-facts">
        <h3>{t("gallery.work")}</h3>
        <dl>
          <Fact name={t("gallery.seconds")}>{formatSeconds(result.seconds)}</Fact>
          <Fact name={t("gallery.plan")}>{result.plan || t("gallery.no_plan")}</Fact>
        </dl>
        {run && <Times nodes={run.nodes} />}
        {run && <RankWork nodes={run.nodes} />}
        {problem && <p className="ll-facts-problem">{problem}</p>}
      </section>
      {run && <ModelsBehind result={result} run={run} />}
      {run && <AllValues result={result} run={run} />}
      {run && <Versions versions={run.versions} />}
    </>
  );
}

/** Params, what a sweep varied, and all that is set on the nodes; the prompt and the seed have places of their own. */
function useValues(result: Result, run: RunWithGraph | null): { name: string; value: string }[] {
  return useMemo(() => {
    const inputs = run?.graph
      ? inputsBehind({ graph: fromFile(run.graph), ...madeBy(result) }, run.values, run.inputs)
      : [];
    const named = Object.entries({ ...result.params, ...result.varied });
    const told = [...named.map(([name, value]) => ({ name, value: shown(value) })), ...inputs];
    const places: Record<string, string> = { prompt: result.prompt, seed: asRead(result.seed) };
    return told.filter(({ name, value }, index) => {
      const isFirst = told.findIndex((other) => other.name === name) === index;
      return isFirst && places[name.slice(name.lastIndexOf(".") + 1)] !== value;
    });
  }, [result, run]);
}

function madeBy({ node, part }: Result): { node: string; part: string } {
  return { node, part };
}

/** Every value of every node behind the result, as the run had it. */
function AllValues({ result, run }: { result: Result; run: RunWithGraph }) {
  const catalog = useEditor((state) => state.catalog);
  const nodes = useMemo(
    () =>
      run.graph ? valuesBehind({ graph: fromFile(run.graph), ...madeBy(result) }, catalog, run.inputs, run.values) : [],
    [result, run, catalog],
  );
  if (nodes.length === 0) return null;
  return (
    <details className="ll-facts ll-facts-all">
      <summary>{t("gallery.all_values")}</summary>
      {nodes.map(({ node, title, values }) => (
        <section key={node}>
          <h4>
            {title} <code>{node}</code>
          </h4>
          <dl>
            {values.map(({ socket, value, isMeant }) => (
              <Fact key={socket} name={socket}>
                {value || "–"} {isMeant && <span className="ll-facts-meant">{t("gallery.chosen_by_run")}</span>}
              </Fact>
            ))}
          </dl>
        </section>
      ))}
    </details>
  );
}

/** What each denoise was predicted to take for a step, and what it took. */
function Times({ nodes }: { nodes: RunWithGraph["nodes"] }) {
  const told = Object.entries(nodes).filter(([, node]) => node.foreseen);
  return (
    <dl>
      {told.map(([name, { foreseen, took }]) => (
        <Fact key={name} name={t("gallery.step_of", { node: name })}>
          {foreseen && t("gallery.predicted_s", { seconds: formatSeconds(foreseen.step_s) })}
          {took?.step_s != null && `, ${t("gallery.took_s", { seconds: formatSeconds(took.step_s) })}`}
        </Fact>
      ))}
    </dl>
  );
}

function Versions({ versions }: { versions: Record<string, string | null> }) {
  const known = Object.entries(versions).filter(([, version]) => version);
  if (known.length === 0) return null;
  return (
    <section className="ll-facts">
      <h3>{t("gallery.versions")}</h3>
      <dl>
        {known.map(([name, version]) => (
          <Fact key={name} name={name}>
            {version}
          </Fact>
        ))}
      </dl>
    </section>
  );
}

export function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div className="ll-fact">
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}
