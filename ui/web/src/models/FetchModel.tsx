import { useId, useState } from "react";
import { host, sentence } from "../host";
import { t } from "../i18n";
import { Button } from "../parts/Button";
import { Notice } from "../parts/Notice";
import { readDownloads } from "./downloadsStore";
import type { HubLook } from "../types";
import { worded } from "../worded";
import { Downloads } from "./Downloads";
import { HubFacts } from "./HubFacts";
import { HubIdField } from "./HubIdField";
import { hubIdIn } from "./pullCommand";

/** Has the server fetch a model: looked at first, then, with its licence and size in sight, fetched. */
export function FetchModel({ initial = "" }: { initial?: string }) {
  const id = useId();
  const [typed, setTyped] = useState(initial);
  const [found, setFound] = useState<HubLook | null>(null);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState<"" | "look" | "start">("");
  const model = hubIdIn(typed);
  const isWrong = typed.trim() !== "" && !model;
  const attempt = async (what: "look" | "start", act: () => Promise<void>) => {
    setBusy(what);
    setError("");
    try {
      await act();
    } catch (failure) {
      setError(sentence(failure));
    } finally {
      setBusy("");
    }
  };
  const look = () =>
    attempt("look", async () => {
      setFound(null);
      setFound(await host.lookAtHub(model));
    });
  const start = (shown: HubLook) =>
    attempt("start", async () => {
      await host.startDownload(shown);
      setFound(null);
      await readDownloads();
    });
  return (
    <div className="ll-fetch">
      <form
        className="ll-fetch-ask"
        onSubmit={(event) => {
          event.preventDefault();
          if (model && !busy) void look();
        }}
      >
        <HubIdField
          id={id}
          typed={typed}
          isWrong={isWrong}
          onType={(text) => {
            setTyped(text);
            setFound(null);
            setError("");
          }}
        />
        <Button type="submit" icon="search" isBusy={busy === "look"} disabled={!model}>
          {t("models.look")}
        </Button>
        <p id={`${id}-help`} className={isWrong ? "ll-field-problem" : "ll-field-help"}>
          {t(isWrong ? "models.no_hub_id" : "models.look_help")}
        </p>
      </form>
      {error && <Notice kind="error">{error}</Notice>}
      {found && (
        <section className="ll-fetch-found" aria-label={found.id}>
          <HubFacts found={found} />
          {found.problem ? (
            <Notice kind="warning">{worded(found.problem)}</Notice>
          ) : (
            <Button kind="primary" icon="download" isBusy={busy === "start"} onClick={() => void start(found)}>
              {t("models.fetch")}
            </Button>
          )}
        </section>
      )}
      <Downloads />
    </div>
  );
}
