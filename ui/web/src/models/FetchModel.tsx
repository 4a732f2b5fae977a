import { useId, useRef, useState } from "react";
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
import { hubModelIn } from "./pullCommand";

/** Has the server fetch a model: looked at first, then, with its licence and size in sight, fetched. `initial` is an id
 * or an address on the hub. */
export function FetchModel({ initial = "" }: { initial?: string }) {
  const id = useId();
  const [typed, setTyped] = useState(initial);
  const [found, setFound] = useState<HubLook | null>(null);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState<"" | "look" | "start">("");
  const newest = useRef(typed);
  const model = hubModelIn(typed);
  const isWrong = typed.trim() !== "" && !model.source;
  /** What comes of it is shown unless something else is typed by then. */
  const attempt = async <T,>(what: "look" | "start", ask: () => Promise<T>, show: (answer: T) => void) => {
    const asked = newest.current;
    setBusy(what);
    setError("");
    try {
      const answer = await ask();
      if (newest.current === asked) show(answer);
    } catch (failure) {
      if (newest.current === asked) setError(sentence(failure));
    } finally {
      setBusy("");
    }
  };
  const look = () => {
    setFound(null);
    return attempt("look", () => host.lookAtHub(model), setFound);
  };
  const begin = async (shown: HubLook) => {
    await host.startDownload(shown);
    await readDownloads();
  };
  const start = (shown: HubLook) =>
    attempt(
      "start",
      () => begin(shown),
      () => setFound(null),
    );
  return (
    <div className="ll-fetch">
      <form
        className="ll-fetch-ask"
        onSubmit={(event) => {
          event.preventDefault();
          if (model.source && !busy) void look();
        }}
      >
        <HubIdField
          id={id}
          typed={typed}
          isWrong={isWrong}
          onType={(text) => {
            newest.current = text;
            setTyped(text);
            setFound(null);
            setError("");
          }}
        />
        <Button type="submit" icon="search" isBusy={busy === "look"} disabled={!model.source}>
          {t("models.look")}
        </Button>
        <p id={`${id}-help`} className={isWrong ? "ll-field-problem" : "ll-field-help"}>
          {t(isWrong ? "models.no_hub_id" : "models.look_help")}
        </p>
      </form>
      {error && <Notice kind="error">{error}</Notice>}
      {found && (
        <section className="ll-fetch-found" aria-label={found.id}>
          <h4>{found.id}</h4>
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
