import { useState } from "react";
import { t } from "../i18n";
import { Devices } from "../models/Devices";
import { GetModel } from "../models/GetModel";
import { Loaded } from "../models/Loaded";
import { Loading } from "../models/Loading";
import { ModelCard } from "../models/ModelCard";
import { forgetLoras } from "../models/lorasStore";
import { loadModels, useModels } from "../models/modelsStore";
import { Button } from "../parts/Button";
import { Empty } from "../parts/Empty";
import { Notice } from "../parts/Notice";
import { Spinner } from "../parts/Spinner";
import type { ModelEntry } from "../types";

/** What is installed, what fits where, what is in memory now, and how to get more. */
export function Models() {
  const { view, isLoading, error } = useModels();
  const [search, setSearch] = useState("");
  const models = view?.models ?? [];
  const found = models.filter((model) => matches(model, search));
  return (
    <section className="ll-models" aria-labelledby="ll-models-title">
      <header className="ll-models-head">
        <h2 id="ll-models-title">{t("models.title")}</h2>
        <input
          type="search"
          className="ll-input ll-models-search"
          aria-label={t("models.search")}
          placeholder={t("models.search")}
          value={search}
          onChange={(event) => setSearch(event.target.value)}
        />
        <Button icon="refresh" isBusy={isLoading} onClick={lookAgain}>
          {t("models.refresh")}
        </Button>
      </header>
      <div className="ll-models-main">
        {error && <Notice kind="error">{error}</Notice>}
        {!view && isLoading && <Spinner label={t("models.reading")} isVisible />}
        <p className="ll-hidden" role="status">
          {view && search ? t("models.found", { count: found.length }) : ""}
        </p>
        <ul className="ll-model-list" aria-label={t("models.title")}>
          {found.map((model) => (
            <ModelCard key={`${model.name} ${model.location} ${model.revision}`} model={model} />
          ))}
        </ul>
        {view && found.length === 0 && (
          <Empty icon="model" title={t("models.none")} text={t(search ? "models.none_found" : "models.none_here")} />
        )}
      </div>
      <aside className="ll-models-side" aria-label={t("models.machine")}>
        <Devices initial={view?.devices ?? []} />
        <Loading />
        <Loaded parts={view?.loaded ?? []} />
        <GetModel />
      </aside>
    </section>
  );
}

function lookAgain(): void {
  void loadModels({ isFresh: true });
  void forgetLoras();
}

function matches(model: ModelEntry, search: string): boolean {
  const text = [model.name, model.family, model.location, ...model.strategies].join(" ").toLowerCase();
  return search
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}
