import { useEffect, useState } from "react";
import { fromFile } from "../../graph/file/workflowFile";
import { needsOf } from "../../graph/order";
import { host, sentence } from "../../host";
import { t } from "../../i18n";
import { Button } from "../../parts/Button";
import { formatBytes } from "../../parts/format";
import { Meter } from "../../parts/Meter";
import { Notice } from "../../parts/Notice";
import type { Hashing, ModelFacts, Result, RunWithGraph } from "../../types";
import { number } from "../resultWords";
import { Fact } from "./Facts";

const POLL_MS = 700;

/** The models behind a result: revision, format, LoRAs, and each file by its size and the hash of its header. */
export function ModelsBehind({ result, run }: { result: Result; run: RunWithGraph }) {
  const needed = run.graph ? needsOf(fromFile(run.graph), result.node) : null;
  const models = Object.entries(run.models).filter(([node]) => needed === null || needed.has(node));
  if (models.length === 0) return null;
  return (
    <section className="ll-facts">
      <h3>{t("gallery.model")}</h3>
      {models.map(([node, model]) => (
        <OneModel key={node} run={run.id} node={node} model={model} />
      ))}
    </section>
  );
}

function OneModel({ run, node, model }: { run: string; node: string; model: ModelFacts }) {
  if (model.loras.length > 0)
    return (
      <dl>
        {model.loras.map((lora) => (
          <Fact key={lora.name} name="LoRA">
            {t("gallery.lora_at", { name: lora.name, scale: number(lora.scale, 3) })}{" "}
            <code>{lora.sha256.slice(0, 16)}</code>
          </Fact>
        ))}
      </dl>
    );
  return (
    <>
      <dl>
        <Fact name={node}>{model.source}</Fact>
        <Fact name={t("gallery.family")}>
          {[model.family, model.dtype, quantized(model)].filter(Boolean).join(", ")}
        </Fact>
        {model.revision && (
          <Fact name={t("gallery.revision")}>
            <code>{model.revision}</code>
          </Fact>
        )}
      </dl>
      {model.files.length > 0 && <Files run={run} node={node} model={model} />}
    </>
  );
}

function quantized({ quantization }: ModelFacts): string {
  return quantization === "none" ? "" : quantization;
}

function Files({ run, node, model }: { run: string; node: string; model: ModelFacts }) {
  const [hashing, setHashing] = useState<Hashing | null>(null);
  const [problem, setProblem] = useState("");
  const isUnderWay = hashing?.state === "waiting" || hashing?.state === "running";
  const said = (work: Promise<Hashing>) =>
    work.then(setHashing, (error: unknown) => {
      setProblem(sentence(error));
      setHashing(null);
    });
  useEffect(() => {
    if (!hashing || !isUnderWay) return;
    const timer = setTimeout(() => void said(host.hashing(hashing.id)), POLL_MS);
    return () => clearTimeout(timer);
  }, [hashing, isUnderWay]);
  const start = () => {
    setProblem("");
    void said(host.hash(run, node));
  };
  const sha256 = new Map(hashing?.files.map((file) => [file.name, file.sha256]));
  return (
    <details className="ll-model-files">
      <summary>{t("gallery.model_files", { count: model.files.length })}</summary>
      <ul>
        {model.files.map((file) => (
          <li key={file.name}>
            {file.name}, {formatBytes(file.num_bytes)}
            <code>{t("gallery.header_hash", { hash: file.header_sha256.slice(0, 16) })}</code>
            {sha256.has(file.name) && <code>sha256 {sha256.get(file.name)}</code>}
          </li>
        ))}
      </ul>
      <div className="ll-model-hash">
        {hashing && isUnderWay ? (
          <>
            <Meter label={t("gallery.hashing")} value={hashing.done_bytes} max={hashing.total_bytes || 1} />
            <Button icon="stop" onClick={() => void host.cancelHash(hashing.id).then(() => setHashing(null))}>
              {t("gallery.stop_hashing")}
            </Button>
          </>
        ) : (
          hashing?.state !== "done" && <Button onClick={start}>{t("gallery.hash_files")}</Button>
        )}
        {(problem || hashing?.error) && <Notice kind="error">{problem || hashing?.error}</Notice>}
      </div>
    </details>
  );
}
